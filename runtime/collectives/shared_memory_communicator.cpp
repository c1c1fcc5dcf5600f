#include "runtime/collectives/shared_memory_communicator.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "dsl/base/error.h"
#include "runtime/collectives/collectives_transfer.h"
#include "runtime/collectives/rank_communicator.h"
#include "runtime/rank/throttle.h"

namespace hetsynth {
namespace {

/// A member's call, copied: a rank that leaves because the run is being aborted must not take it away from peers still
/// looking at it.
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
      : ranks(std::move(members)),
        posts(ranks.size()),
        called(ranks.size()),
        barrier(state, static_cast<int>(ranks.size())) {}

  void post(size_t member, std::span<const CollectiveCall> calls) {
    std::vector<Post>& own = posts[member];
    if (own.size() < calls.size()) own.resize(calls.size());
    for (size_t i = 0; i < calls.size(); ++i) own[i].set(calls[i]);
    called[member] = calls.size();
  }
  /// Returns the call of this number of every member.
  std::vector<const CollectiveCall*> calls(size_t number) const {
    std::vector<const CollectiveCall*> out;
    for (const std::vector<Post>& of_member : posts) out.push_back(&of_member[number].call);
    return out;
  }

  std::vector<int> ranks;
  std::vector<std::vector<Post>> posts;  ///< by member
  std::vector<size_t> called;            ///< by member: how many of these are its latest calls
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

class SharedMemoryExchange final : public Exchange {
 public:
  SharedMemoryExchange(int rank, RunState& state, std::shared_ptr<Pairs> pairs)
      : rank_(rank), state_(state), pairs_(std::move(pairs)) {}

  /// By axis, in order: all ranks of the group, and those that stand for it in calls among leaders.
  void join(std::shared_ptr<SharedGroup> group, std::shared_ptr<SharedGroup> leaders) {
    memberships_.push_back(std::move(group));
    leaderships_.push_back(std::move(leaders));
  }

  // Two meetings: nobody reads before all have arrived, nobody leaves (and reuses its buffers) before all have read.
  bool carry_out(std::span<const CollectiveCall> calls) override {
    const CollectiveCall& first = calls.front();
    if (first.axis < 0 || static_cast<size_t>(first.axis) >= memberships_.size()) {
      state_.fail(rank_, "called " + text(first) + ", but the mesh has no such axis");
      return false;
    }
    SharedGroup& along = *(reduces_among_leaders(first) ? leaderships_ : memberships_)[static_cast<size_t>(first.axis)];
    try {
      for (const CollectiveCall& call : calls) check_call(call, static_cast<int>(along.ranks.size()));
    } catch (const UserError& error) {
      state_.fail(rank_, error.what());
      return false;
    }
    if (state_.aborted()) return false;
    SharedGroup& group = first.kind == CollectiveKind::send ? pair(first, along) : along;
    const int member = member_of(group);
    group.post(static_cast<size_t>(member), calls);
    if (!wait(group, calls) || !peers_agree(group, calls)) return false;
    const double start = wall_seconds();
    for (size_t i = 0; i < calls.size(); ++i) times_.moved_bytes += transfer(group.calls(i), member);
    times_.transfer_seconds += wall_seconds() - start;
    return wait(group, calls);
  }

  int rank() const override { return rank_; }
  int group_size(int axis) const override {
    return static_cast<int>(memberships_.at(static_cast<size_t>(axis))->ranks.size());
  }
  int coordinate(int axis) const override {
    const bool known = axis >= 0 && static_cast<size_t>(axis) < memberships_.size();
    return known ? member_of(*memberships_[static_cast<size_t>(axis)]) : 0;
  }
  const RankTimes& times() const override { return times_; }

 private:
  int member_of(const SharedGroup& group) const {
    return static_cast<int>(std::ranges::find(group.ranks, rank_) - group.ranks.begin());
  }

  bool wait(SharedGroup& group, std::span<const CollectiveCall> calls) {
    const double start = wall_seconds();
    const bool complete = group.barrier.arrive_and_wait(rank_, [&] { return text(calls); });
    times_.idle_seconds += wall_seconds() - start;
    return complete;
  }

  SharedGroup& pair(const CollectiveCall& send, const SharedGroup& along) {
    return pairs_->of(along.ranks[static_cast<size_t>(send.root)], along.ranks[static_cast<size_t>(send.to)]);
  }

  bool peers_agree(const SharedGroup& group, std::span<const CollectiveCall> calls) {
    for (size_t j = 0; j < group.ranks.size(); ++j) {
      std::vector<CollectiveCall> theirs;
      for (size_t i = 0; i < group.called[j]; ++i) theirs.push_back(group.posts[j][i].call);
      if (std::ranges::equal(theirs, calls, same_call)) continue;
      const int lower = std::min(rank_, group.ranks[j]), upper = std::max(rank_, group.ranks[j]);
      const bool own_first = lower == rank_;
      const std::string own = text(calls), other = text(std::span<const CollectiveCall>(theirs));
      state_.fail(lower, "ranks met in different collectives:\n  " + state_.describe(lower) + ": " +
                             (own_first ? own : other) + "\n  " + state_.describe(upper) + ": " +
                             (own_first ? other : own));
      return false;
    }
    return true;
  }

  const int rank_;
  RunState& state_;
  RankTimes times_;
  std::shared_ptr<Pairs> pairs_;
  std::vector<std::shared_ptr<SharedGroup>> memberships_, leaderships_;  ///< per mesh axis
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
    auto exchange = std::make_unique<SharedMemoryExchange>(rank, state, pairs);
    for (int axis = 0; axis < static_cast<int>(mesh.axes.size()); ++axis) {
      const auto group_of = [&](const std::vector<int>& ranks_in) {
        auto& group = groups[{axis, ranks_in}];
        if (!group) group = std::make_shared<SharedGroup>(state, ranks_in);
        return group;
      };
      const std::vector<int> members = mesh.group(rank, axis);
      exchange->join(group_of(members), group_of(leaders_of(members, on_gpu)));
    }
    out.push_back(rank_communicator(std::move(exchange), duties[static_cast<size_t>(rank)], state, Overlap::none));
  }
  return out;
}

}  // namespace hetsynth
