#include "runtime/processes/message_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>

#include "dsl/base/error.h"
#include "dsl/spmd/hosts.h"
#include "runtime/collectives/collective_pieces.h"
#include "runtime/collectives/collectives_transfer.h"
#include "runtime/collectives/rank_communicator.h"
#include "runtime/processes/group_messages.h"
#include "runtime/processes/host_exchange.h"
#include "runtime/rank/throttle.h"

namespace hetsynth {
namespace {

/// The members of a group on this rank's host, and the first ones of all hosts, which lead.
struct Levels {
  GroupHosts hosts;
  MessageGroup own, leaders;
  bool leads() const { return own.member == 0; }
};

class MessageExchange final : public Exchange {
 public:
  MessageExchange(int rank, RunState& state, Job& job, const ProcessOfRank& process_of)
      : rank_(rank), state_(state), process_of_(process_of), messages_(rank, state, job, process_of_, times_) {}

  /// By axis, in order: all ranks of the group, and those that stand for it in calls among leaders.
  void join(const std::vector<int>& members, const std::vector<int>& leaders) {
    groups_.push_back(group_of(members));
    leaders_.push_back(group_of(leaders));
  }

  bool carry_out(std::span<const CollectiveCall> calls) override {
    state_.begin_exchange(rank_, text(calls));
    const bool done = meet(calls);
    state_.end_exchange(rank_);
    return done;
  }
  bool posts() const override { return true; }
  bool post(const CollectiveCall& call) override {
    try {
      if (call.axis < 0 || size_t(call.axis) >= groups_.size()) return fails(call, "the mesh has no such axis");
      const std::vector<int>& ranks = groups_[size_t(call.axis)].ranks;
      check_call(call, int(ranks.size()));
      const std::pair between(ranks[size_t(call.root)], ranks[size_t(call.to)]);
      messages_.post(posted_.try_emplace(between, group_of({between.first, between.second})).first->second, call);
      return !state_.aborted();
    } catch (const UserError& error) {
      return fails(call, error.what());
    }
  }
  bool finish(int id, RankTimes& times) override { return messages_.finish(id, times); }
  bool progress() override { return messages_.progress(); }
  int rank() const override { return rank_; }
  int group_size(int axis) const override { return int(groups_.at(size_t(axis)).ranks.size()); }
  int coordinate(int axis) const override {
    return axis >= 0 && size_t(axis) < groups_.size() ? groups_[size_t(axis)].member : 0;
  }
  const RankTimes& times() const override { return times_; }

 private:
  bool fails(const CollectiveCall& call, const std::string& why) {
    state_.fail(rank_, "called " + text(call) + ", but " + why);
    return false;
  }

  MessageGroup group_of(const std::vector<int>& ranks) const {
    return {ranks, int(std::ranges::find(ranks, rank_) - ranks.begin()), 0};
  }

  bool meet(std::span<const CollectiveCall> calls) {
    const CollectiveCall& first = calls.front();
    if (first.axis < 0 || size_t(first.axis) >= groups_.size()) {
      state_.fail(rank_, "called " + text(first) + ", but the mesh has no such axis");
      return false;
    }
    MessageGroup& group = (reduces_among_leaders(first) ? leaders_ : groups_)[size_t(first.axis)];
    try {
      for (const CollectiveCall& call : calls) check_call(call, int(group.ranks.size()));
    } catch (const UserError& error) {
      state_.fail(rank_, error.what());
      return false;
    }
    if (state_.aborted()) return false;
    if (may_join(first)) return together(group, calls);
    if (!first.hosts.empty()) return by_host(levels(group, first), first);
    return move(first.kind == CollectiveKind::send ? pair(group, first) : group, first);
  }

  /// Sender and receiver, as a group of two.
  MessageGroup& pair(const MessageGroup& along, const CollectiveCall& send) {
    const int sender = along.ranks[size_t(send.root)], receiver = along.ranks[size_t(send.to)];
    return pairs_.try_emplace({sender, receiver}, group_of({sender, receiver})).first->second;
  }

  bool move(MessageGroup& group, const CollectiveCall& call) {
    const MessagePart part =
        moved(group, call, [&](int other) { return piece_sent(call, group.member, other, int(group.ranks.size())); });
    return messages_.exchange(group, text(call), {&part, 1});
  }

  /// The collective as it is: what others send goes to its place in the destination.
  MessagePart moved(const MessageGroup& group, const CollectiveCall& call, std::function<Piece(int)> sent) {
    const int member = group.member;
    return {&call, std::move(sent),
            [this, &call, member](int from, const std::byte* bytes) {
              times_.moved_bytes +=
                  copy_in(bytes, piece_received(call, from, member), bytes_per_element(call.type), call.destination);
            },
            [&call, member](int from) { return piece_received(call, from, member).elements(); }};
  }

  /// Carries the calls out with one message to every other member, and one more where shares that were reduced go to
  /// all.
  bool together(MessageGroup& group, std::span<const CollectiveCall> calls) {
    const int members = int(group.ranks.size());
    std::vector<Reduction> reductions;
    std::deque<std::vector<int64_t>> bounds;
    std::vector<CollectiveCall> gathers;  // of shares, as all-gathers whose sources lie in their destinations
    std::vector<MessagePart> parts, parts_of_gathers;
    reductions.reserve(calls.size());
    gathers.reserve(calls.size());
    for (const CollectiveCall& call : calls) {
      if (call.kind == CollectiveKind::all_gather) {
        parts.push_back(moved(
            group, call, [&group, &call, members](int to) { return piece_sent(call, group.member, to, members); }));
        continue;
      }
      const bool all = call.kind == CollectiveKind::all_reduce;
      const Piece own = all ? all_reduce_share(call.count, group.member, members) : Piece{};
      void* const to = static_cast<std::byte*>(call.destination) + own.offset * bytes_per_element(call.type);
      reductions.push_back(reduction(group, call, to));
      parts.push_back(reductions.back().part);
      if (!all) continue;
      std::vector<int64_t>& cut = bounds.emplace_back();
      for (int j = 0; j <= members; ++j) cut.push_back(call.count * j / members);
      CollectiveCall& gather = gathers.emplace_back(call);
      gather.kind = CollectiveKind::all_gather;
      gather.outer = gather.inner = 1;
      gather.bounds = cut;
      gather.source = call.destination;
      parts_of_gathers.push_back(moved(group, gather, [own](int) { return own; }));
    }
    const std::string what = text(calls);
    if (!messages_.exchange(group, what, parts)) return false;
    for (const Reduction& each : reductions) carry_out(group, each);
    return gathers.empty() || messages_.exchange(group, what, parts_of_gathers);
  }

  /// A sum of this member's part of all sources, in coordinate order.
  struct Reduction {
    MessagePart part;
    CollectiveCall call;
    void* destination = nullptr;
    int64_t elements = 0;
    std::shared_ptr<std::vector<std::vector<std::byte>>> sources;  ///< by member
  };

  Reduction reduction(const MessageGroup& group, const CollectiveCall& call, void* destination) const {
    const int members = int(group.ranks.size()), member = group.member;
    const int64_t size = bytes_per_element(call.type);
    Reduction out;
    out.call = call;
    out.destination = destination;
    out.elements = piece_sent(call, member, member, members).elements();
    out.sources = std::make_shared<std::vector<std::vector<std::byte>>>(size_t(members));
    out.part = {&call, [&call, member, members](int to) { return piece_sent(call, member, to, members); },
                [sources = out.sources, bytes = out.elements * size](int from, const std::byte* at) {
                  (*sources)[size_t(from)].assign(at, at + bytes);
                },
                [elements = out.elements](int) { return elements; }};
    return out;
  }

  /// The reduction itself is that of shared memory: of a tensor that is all this member's.
  void carry_out(const MessageGroup& group, const Reduction& reduction) {
    const double start = wall_seconds();
    const size_t members = group.ranks.size();
    std::vector<int64_t> bounds(members + 1, 0);
    std::fill(bounds.begin() + group.member + 1, bounds.end(), reduction.elements);
    std::vector<CollectiveCall> calls(members, reduction.call);
    std::vector<const CollectiveCall*> pointers;
    for (size_t j = 0; j < members; ++j) {
      calls[j].kind = CollectiveKind::reduce_scatter;
      calls[j].outer = calls[j].inner = 1;
      calls[j].bounds = bounds;
      calls[j].source = (*reduction.sources)[j].data();
      calls[j].destination = reduction.destination;
      pointers.push_back(&calls[j]);
    }
    times_.moved_bytes += transfer(pointers, group.member);
    times_.transfer_seconds += wall_seconds() - start;
  }

  /// Reduces this member's part of all sources, in coordinate order, into `destination`.
  bool reduce(MessageGroup& group, const CollectiveCall& call, void* destination) {
    const Reduction own = reduction(group, call, destination);
    if (!messages_.exchange(group, text(call), {&own.part, 1})) return false;
    carry_out(group, own);
    return true;
  }

  Levels& levels(const MessageGroup& along, const CollectiveCall& call) {
    auto [entry, fresh] = levels_.try_emplace({call.axis, std::vector(call.hosts.begin(), call.hosts.end())});
    Levels& out = entry->second;
    if (!fresh) return out;
    out.hosts = hosts_by_coordinate(call.hosts, along.member);
    std::vector<int> leaders;
    for (int h = 0; h < out.hosts.count(); ++h) leaders.push_back(along.ranks[size_t(out.hosts.first[size_t(h)])]);
    out.own = group_of({along.ranks.begin() + out.hosts.leader(), along.ranks.begin() + out.hosts.end()});
    out.leaders = group_of(leaders);
    return out;
  }

  /// To the leader of every host, among the leaders, and from them: so that few messages go from host to host.
  bool by_host(Levels& levels, CollectiveCall call) {
    call.hosts = {};
    switch (call.kind) {
      case CollectiveKind::all_reduce: {
        std::vector<std::byte> sum;
        if (!reduce_at_leader(levels, call, call.count, sum)) return false;
        CollectiveCall among = call;
        among.source = sum.data();
        if (levels.leads() && !together(levels.leaders, {&among, 1})) return false;
        return hand_on(levels, call, call.count);
      }
      case CollectiveKind::all_gather:
        return gather_by_host(levels, call);
      case CollectiveKind::reduce_scatter:
        return scatter_by_host(levels, call);
      case CollectiveKind::all_to_all:
        return all_to_all_by_host(levels, call);
      case CollectiveKind::broadcast:
        return broadcast_by_host(levels, call);
      default:
        throw InternalError("a collective with levels");
    }
  }

  /// The reduction of `count` elements over this host, at its leader alone.
  bool reduce_at_leader(Levels& levels, const CollectiveCall& call, int64_t count, std::vector<std::byte>& sum) {
    std::vector<int64_t> bounds(levels.own.ranks.size() + 1, count);
    bounds[0] = 0;
    CollectiveCall within = call;
    within.kind = CollectiveKind::reduce_scatter;
    within.outer = within.inner = 1;
    within.bounds = bounds;
    if (levels.leads()) sum.resize(size_t(count * bytes_per_element(call.type)));
    return reduce(levels.own, within, sum.data());
  }

  /// What the leader has in its destination, to all of its host.
  bool hand_on(Levels& levels, const CollectiveCall& call, int64_t count) {
    CollectiveCall whole = call;
    whole.kind = CollectiveKind::broadcast;
    whole.root = 0;
    whole.count = count;
    whole.source = call.destination;
    return move(levels.own, whole);
  }

  /// Of this host's members, in what they hold together.
  static std::vector<int64_t> bounds_within(const GroupHosts& hosts, const CollectiveCall& call) {
    std::vector<int64_t> out;
    for (int member = hosts.leader(); member <= hosts.end(); ++member)
      out.push_back(call.bounds[size_t(member)] - call.bounds[size_t(hosts.leader())]);
    return out;
  }
  static Piece dense(int64_t elements) { return {0, 1, elements, 0}; }

  bool gather_by_host(Levels& levels, const CollectiveCall& call) {
    const int64_t size = bytes_per_element(call.type);
    const std::vector<int64_t> within = bounds_within(levels.hosts, call),
                               between = bounds_by_host(levels.hosts, call.bounds);
    CollectiveCall host = call, among = call;
    host.bounds = within;
    among.bounds = between;
    std::vector<std::byte> block(levels.leads() ? size_t(call.outer * within.back() * call.inner * size) : 0);
    const auto own = dense(piece_received(host, levels.own.member, 0).elements());
    const bool gathered = exchange(
        levels.own, host, [&](int to) { return to == 0 ? own : dense(0); },
        [&](int from, const std::byte* bytes) {
          if (levels.leads()) times_.moved_bytes += copy_in(bytes, piece_received(host, from, 0), size, block.data());
        },
        [&](int from) { return levels.leads() ? piece_received(host, from, 0).elements() : 0; });
    among.source = block.data();
    if (!gathered || (levels.leads() && !move(levels.leaders, among))) return false;
    return hand_on(levels, call, call.outer * call.bounds.back() * call.inner);
  }

  bool scatter_by_host(Levels& levels, const CollectiveCall& call) {
    const int64_t size = bytes_per_element(call.type);
    const std::vector<int64_t> within = bounds_within(levels.hosts, call),
                               between = bounds_by_host(levels.hosts, call.bounds);
    std::vector<std::byte> sum;
    if (!reduce_at_leader(levels, call, call.outer * call.bounds.back() * call.inner, sum)) return false;
    CollectiveCall host = call, among = call;
    host.bounds = within;
    among.bounds = between;
    among.source = sum.data();
    std::vector<std::byte> block(levels.leads() ? size_t(call.outer * within.back() * call.inner * size) : 0);
    if (levels.leads() && !reduce(levels.leaders, among, block.data())) return false;
    host.source = block.data();
    const int members = int(levels.own.ranks.size());
    const Piece own = dense(piece_sent(host, 0, levels.own.member, members).elements());
    return exchange(
        levels.own, host, [&](int to) { return levels.leads() ? piece_sent(host, 0, to, members) : dense(0); },
        [&](int from, const std::byte* bytes) {
          if (from == 0) times_.moved_bytes += copy_in(bytes, own, size, call.destination);
        },
        [&](int from) { return from == 0 ? own.elements() : 0; });
  }

  bool all_to_all_by_host(Levels& levels, const CollectiveCall& call) {
    HostExchange parts(call, levels.hosts, levels.hosts.leader() + levels.own.member);
    const auto phase = [&](MessageGroup& group, HostExchange::Phase phase) {
      const HostExchange::Packed packed = parts.sent(phase);
      CollectiveCall own = call;
      own.source = packed.bytes.data();
      return exchange(
          group, own, [&](int to) { return packed.to[size_t(to)]; },
          [&](int from, const std::byte* bytes) { times_.moved_bytes += parts.take(phase, from, bytes); },
          [&](int from) { return parts.expected(phase, from); });
    };
    using enum HostExchange::Phase;
    return phase(levels.own, within) && (!levels.leads() || phase(levels.leaders, between)) && phase(levels.own, back);
  }

  /// Within the root's host, among the leaders, and within the other hosts.
  bool broadcast_by_host(Levels& levels, const CollectiveCall& call) {
    const GroupHosts& hosts = levels.hosts;
    CollectiveCall part = call;
    part.root = call.root - hosts.leader();
    if (hosts.here(call.root) && !move(levels.own, part)) return false;
    part.root = hosts.host_of(call.root);
    part.source = call.destination;
    if (levels.leads() && !move(levels.leaders, part)) return false;
    return hosts.here(call.root) || hand_on(levels, call, call.count);
  }

  /// Exchanges what one call sends.
  bool exchange(MessageGroup& group, const CollectiveCall& call, std::function<Piece(int)> sent,
                std::function<void(int, const std::byte*)> take, std::function<int64_t(int)> expected) {
    const MessagePart part{&call, std::move(sent), std::move(take), std::move(expected)};
    return messages_.exchange(group, text(call), {&part, 1});
  }

  const int rank_;
  RunState& state_;
  const ProcessOfRank process_of_;
  RankTimes times_;
  GroupMessages messages_;
  std::vector<MessageGroup> groups_, leaders_;                     ///< per mesh axis
  std::map<std::pair<int, int>, MessageGroup> pairs_, posted_;     ///< by sender and receiver; of what is posted
  std::map<std::pair<int, std::vector<int64_t>>, Levels> levels_;  ///< by axis and hosts
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> message_communicators(const Mesh& mesh, const std::vector<double>& duties,
                                                                 RunState& state, const std::vector<bool>& on_gpu,
                                                                 Job& job, const ProcessOfRank& process_of) {
  std::vector<std::unique_ptr<Communicator>> out(size_t(mesh.device_count()));
  for (int rank = 0; rank < mesh.device_count(); ++rank) {
    if (process_of[size_t(rank)] != job.process()) continue;
    auto exchange = std::make_unique<MessageExchange>(rank, state, job, process_of);
    for (int axis = 0; axis < int(mesh.axes.size()); ++axis) {
      const std::vector<int> members = mesh.group(rank, axis);
      exchange->join(members, leaders_of(members, on_gpu));
    }
    out[size_t(rank)] = rank_communicator(std::move(exchange), duties[size_t(rank)], state, Overlap::beside);
  }
  return out;
}

}  // namespace hetsynth
