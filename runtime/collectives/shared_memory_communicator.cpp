#include "runtime/collectives/shared_memory_communicator.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "dsl/base/error.h"
#include "runtime/collectives/collectives_transfer.h"
#include "runtime/collectives/rank_clock.h"

namespace hetsynth {
namespace {

/// A member's latest call, copied: a rank that leaves because the run is being aborted must not take it away from peers
/// still looking at it.
struct alignas(64) Post {
  CollectiveCall call;
  std::vector<int64_t> bounds, bounds_to, hosts;

  void set(const CollectiveCall& given) {
    bounds.assign(given.bounds.begin(), given.bounds.end());
    bounds_to.assign(given.bounds_to.begin(), given.bounds_to.end());
    hosts.assign(given.hosts.begin(), given.hosts.end());
    call = given;
    call.hosts = hosts;
    call.bounds = bounds;
    call.bounds_to = bounds_to;
  }
};

/// The ranks that differ only along one axis, and what each of them has just called.
struct SharedGroup {
  SharedGroup(RunState& state, std::vector<int> members)
      : ranks(std::move(members)), posts(ranks.size()), barrier(state, static_cast<int>(ranks.size())) {
    for (const Post& post : posts) calls.push_back(&post.call);
  }
  std::vector<int> ranks;
  std::vector<Post> posts;
  std::vector<const CollectiveCall*> calls;
  Barrier barrier;
};

/// Groups of two that send to each other, made when they first do.
class Pairs {
 public:
  explicit Pairs(RunState& state) : state_(state) {}
  SharedGroup& of(int a, int b) {
    std::lock_guard lock(mutex_);
    std::unique_ptr<SharedGroup>& group = groups_[{std::min(a, b), std::max(a, b)}];
    if (!group) group = std::make_unique<SharedGroup>(state_, std::vector{std::min(a, b), std::max(a, b)});
    return *group;
  }

 private:
  RunState& state_;
  std::mutex mutex_;
  std::map<std::pair<int, int>, std::unique_ptr<SharedGroup>> groups_;
};

class SharedMemoryCommunicator : public Communicator {
 public:
  SharedMemoryCommunicator(int rank, double duty, RunState& state, std::shared_ptr<Pairs> pairs)
      : rank_(rank), state_(state), clock_(duty), pairs_(std::move(pairs)) {}

  /// By axis, in order: all ranks of the group, and those that stand for it in calls among leaders.
  void join(std::shared_ptr<SharedGroup> group, std::shared_ptr<SharedGroup> leaders) {
    memberships_.push_back(membership(std::move(group)));
    leaderships_.push_back(membership(std::move(leaders)));
  }

  bool run(const CollectiveCall& call) override {
    clock_.stop_compute();
    const bool done = meet(call);
    clock_.start_compute();
    return done;
  }

  int rank() const override { return rank_; }
  int group_size(int axis) const override {
    return static_cast<int>(memberships_.at(static_cast<size_t>(axis)).group->ranks.size());
  }
  int coordinate(int axis) const override {
    const bool known = axis >= 0 && static_cast<size_t>(axis) < memberships_.size();
    return known ? memberships_[static_cast<size_t>(axis)].member : 0;
  }
  const RankTimes& times() const override { return clock_.times; }
  void begin_step() override { clock_.start_compute(); }
  void end_step() override { clock_.stop_compute(); }

 private:
  struct Membership {
    std::shared_ptr<SharedGroup> group;
    int member;
  };

  Membership membership(std::shared_ptr<SharedGroup> group) const {
    const auto place = std::ranges::find(group->ranks, rank_);
    const int member = static_cast<int>(place - group->ranks.begin());
    return {std::move(group), member};
  }

  bool wait(SharedGroup& group, const CollectiveCall& call) {
    const double start = wall_seconds();
    const bool complete = group.barrier.arrive_and_wait(rank_, [&] { return text(call); });
    clock_.times.idle_seconds += wall_seconds() - start;
    return complete;
  }

  // Two meetings: nobody reads before all have arrived, nobody leaves (and reuses its buffers) before all have read.
  bool meet(const CollectiveCall& call) {
    if (call.axis < 0 || static_cast<size_t>(call.axis) >= memberships_.size()) {
      state_.fail(rank_, "called " + text(call) + ", but the mesh has no such axis");
      return false;
    }
    const Membership& membership =
        (reduces_among_leaders(call) ? leaderships_ : memberships_)[static_cast<size_t>(call.axis)];
    try {
      check_call(call, static_cast<int>(membership.group->ranks.size()));
    } catch (const UserError& error) {
      state_.fail(rank_, error.what());
      return false;
    }
    if (state_.aborted()) return false;
    SharedGroup& group = call.kind == CollectiveKind::send ? pair(call, *membership.group) : *membership.group;
    const int member = static_cast<int>(std::ranges::find(group.ranks, rank_) - group.ranks.begin());
    group.posts[static_cast<size_t>(member)].set(call);
    if (!wait(group, call) || !peers_agree(group, call)) return false;
    const double start = wall_seconds();
    clock_.times.moved_bytes += transfer(group.calls, member);
    clock_.times.transfer_seconds += wall_seconds() - start;
    return wait(group, call);
  }

  SharedGroup& pair(const CollectiveCall& send, const SharedGroup& along) {
    return pairs_->of(along.ranks[static_cast<size_t>(send.root)], along.ranks[static_cast<size_t>(send.to)]);
  }

  bool peers_agree(const SharedGroup& group, const CollectiveCall& call) {
    for (size_t j = 0; j < group.calls.size(); ++j) {
      if (same_call(*group.calls[j], call)) continue;
      const int lower = std::min(rank_, group.ranks[j]), upper = std::max(rank_, group.ranks[j]);
      const bool own_first = lower == rank_;
      state_.fail(lower, "ranks met in different collectives:\n  " + state_.describe(lower) + ": " +
                             text(own_first ? call : *group.calls[j]) + "\n  " + state_.describe(upper) + ": " +
                             text(own_first ? *group.calls[j] : call));
      return false;
    }
    return true;
  }

  const int rank_;
  RunState& state_;
  RankClock clock_;
  std::shared_ptr<Pairs> pairs_;
  std::vector<Membership> memberships_, leaderships_;  ///< per mesh axis
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> shared_memory_communicators(const Mesh& mesh,
                                                                       const std::vector<double>& duties,
                                                                       RunState& state,
                                                                       const std::vector<bool>& on_gpu) {
  const int ranks = mesh.device_count();
  HETSYNTH_CHECK(static_cast<size_t>(ranks) == duties.size() && ranks == state.ranks(),
                 "one duty and one name per rank");
  std::map<std::pair<int, std::vector<int>>, std::shared_ptr<SharedGroup>> groups;
  std::vector<std::unique_ptr<Communicator>> out;
  auto pairs = std::make_shared<Pairs>(state);
  for (int rank = 0; rank < ranks; ++rank) {
    auto communicator =
        std::make_unique<SharedMemoryCommunicator>(rank, duties[static_cast<size_t>(rank)], state, pairs);
    for (int axis = 0; axis < static_cast<int>(mesh.axes.size()); ++axis) {
      const auto group_of = [&](const std::vector<int>& ranks_in) {
        auto& group = groups[{axis, ranks_in}];
        if (!group) group = std::make_shared<SharedGroup>(state, ranks_in);
        return group;
      };
      const std::vector<int> members = mesh.group(rank, axis);
      communicator->join(group_of(members), group_of(leaders_of(members, on_gpu)));
    }
    out.push_back(std::move(communicator));
  }
  return out;
}

}  // namespace hetsynth
