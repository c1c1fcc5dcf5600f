#include "runtime/processes/message_communicator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

#include "dsl/base/error.h"
#include "dsl/spmd/hosts.h"
#include "runtime/collectives/collective_pieces.h"
#include "runtime/collectives/collectives_transfer.h"
#include "runtime/collectives/rank_clock.h"
#include "runtime/processes/host_exchange.h"

namespace hetsynth {
namespace {

/// In front of every message, so that ranks which call different collectives notice.
struct Header {
  uint64_t number = 0;  ///< of the rank's collectives in this group
  uint64_t hash = 0;    ///< of the call
  char text[112] = {};  ///< of the call, for the message
};

struct Group {
  std::vector<int> ranks;
  int member = 0;
  uint64_t number = 0;
};

/// The members of a group on this rank's host, and the first ones of all hosts, which lead.
struct Levels {
  GroupHosts hosts;
  Group own, leaders;
  bool leads() const { return own.member == 0; }
};

class MessageCommunicator : public Communicator {
 public:
  MessageCommunicator(int rank, double duty, RunState& state, Job& job, const ProcessOfRank& process_of)
      : rank_(rank), state_(state), job_(job), process_of_(process_of), clock_(duty) {}

  /// By axis, in order: all ranks of the group, and those that stand for it in calls among leaders.
  void join(const std::vector<int>& members, const std::vector<int>& leaders) {
    groups_.push_back(group_of(members));
    leaders_.push_back(group_of(leaders));
  }

  bool run(const CollectiveCall& call) override {
    clock_.stop_compute();
    state_.begin_exchange(rank_, text(call));
    const bool done = meet(call);
    state_.end_exchange(rank_);
    clock_.start_compute();
    return done;
  }
  int rank() const override { return rank_; }
  int group_size(int axis) const override { return int(groups_.at(size_t(axis)).ranks.size()); }
  int coordinate(int axis) const override {
    return axis >= 0 && size_t(axis) < groups_.size() ? groups_[size_t(axis)].member : 0;
  }
  const RankTimes& times() const override { return clock_.times; }
  void begin_step() override { clock_.start_compute(); }
  void end_step() override { clock_.stop_compute(); }

 private:
  Group group_of(const std::vector<int>& ranks) const {
    return {ranks, int(std::ranges::find(ranks, rank_) - ranks.begin()), 0};
  }

  bool meet(const CollectiveCall& call) {
    if (call.axis < 0 || size_t(call.axis) >= groups_.size()) {
      state_.fail(rank_, "called " + text(call) + ", but the mesh has no such axis");
      return false;
    }
    Group& group = (reduces_among_leaders(call) ? leaders_ : groups_)[size_t(call.axis)];
    try {
      check_call(call, int(group.ranks.size()));
    } catch (const UserError& error) {
      state_.fail(rank_, error.what());
      return false;
    }
    if (state_.aborted()) return false;
    if (!call.hosts.empty()) return by_host(levels(group, call), call);
    if (call.kind == CollectiveKind::all_reduce) return all_reduce(group, call);
    if (call.kind == CollectiveKind::reduce_scatter) return reduce(group, call, call.destination);
    return move(call.kind == CollectiveKind::send ? pair(group, call) : group, call);
  }

  /// Sender and receiver, as a group of two.
  Group& pair(const Group& along, const CollectiveCall& send) {
    const int sender = along.ranks[size_t(send.root)], receiver = along.ranks[size_t(send.to)];
    return pairs_.try_emplace({sender, receiver}, group_of({sender, receiver})).first->second;
  }

  bool move(Group& group, const CollectiveCall& call) {
    return move(group, call, [&](int other) { return piece_sent(call, group.member, other, int(group.ranks.size())); });
  }

  /// The collective as it is: what others send goes to its place in the destination.
  bool move(Group& group, const CollectiveCall& call, const std::function<Piece(int)>& sent) {
    const int64_t size = bytes_per_element(call.type);
    return exchange(
        group, call, sent,
        [&](int from, const std::byte* bytes) {
          clock_.times.moved_bytes += copy_in(bytes, piece_received(call, from, group.member), size, call.destination);
        },
        [&](int from) { return piece_received(call, from, group.member).elements(); });
  }

  /// Reduces this member's part of all sources, in coordinate order, into `destination`.
  bool reduce(Group& group, const CollectiveCall& call, void* destination) {
    const auto members = group.ranks.size();
    const int64_t size = bytes_per_element(call.type);
    const auto part = [&](int to) { return piece_sent(call, group.member, to, int(members)); };
    const int64_t elements = part(group.member).elements();
    std::vector<std::vector<std::byte>> parts(members);
    const auto keep = [&](int from, const std::byte* bytes) {
      parts[size_t(from)].assign(bytes, bytes + elements * size);
    };
    if (!exchange(group, call, part, keep, [&](int) { return elements; })) return false;
    const double start = wall_seconds();
    // The reduction itself is that of shared memory: of a tensor that is all this member's.
    std::vector<int64_t> bounds(members + 1, 0);
    std::fill(bounds.begin() + group.member + 1, bounds.end(), elements);
    std::vector<CollectiveCall> calls(members, call);
    std::vector<const CollectiveCall*> pointers;
    for (size_t j = 0; j < members; ++j) {
      calls[j].kind = CollectiveKind::reduce_scatter;
      calls[j].outer = calls[j].inner = 1;
      calls[j].bounds = bounds;
      calls[j].source = parts[j].data();
      calls[j].destination = destination;
      pointers.push_back(&calls[j]);
    }
    clock_.times.moved_bytes += transfer(pointers, group.member);
    clock_.times.transfer_seconds += wall_seconds() - start;
    return true;
  }

  bool all_reduce(Group& group, const CollectiveCall& call) {
    const int members = int(group.ranks.size());
    const Piece own = all_reduce_share(call.count, group.member, members);
    const int64_t size = bytes_per_element(call.type);
    if (!reduce(group, call, static_cast<std::byte*>(call.destination) + own.offset * size)) return false;
    // All shares to all: an all-gather whose source lies in the destination.
    std::vector<int64_t> bounds;
    for (int j = 0; j <= members; ++j) bounds.push_back(call.count * j / members);
    CollectiveCall gather = call;
    gather.kind = CollectiveKind::all_gather;
    gather.outer = gather.inner = 1;
    gather.bounds = bounds;
    gather.source = call.destination;
    return move(group, gather, [&](int) { return own; });
  }

  Levels& levels(const Group& along, const CollectiveCall& call) {
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
        if (levels.leads() && !all_reduce(levels.leaders, among)) return false;
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
          if (levels.leads())
            clock_.times.moved_bytes += copy_in(bytes, piece_received(host, from, 0), size, block.data());
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
          if (from == 0) clock_.times.moved_bytes += copy_in(bytes, own, size, call.destination);
        },
        [&](int from) { return from == 0 ? own.elements() : 0; });
  }

  bool all_to_all_by_host(Levels& levels, const CollectiveCall& call) {
    HostExchange parts(call, levels.hosts, levels.hosts.leader() + levels.own.member);
    const auto phase = [&](Group& group, HostExchange::Phase phase) {
      const HostExchange::Packed packed = parts.sent(phase);
      CollectiveCall own = call;
      own.source = packed.bytes.data();
      return exchange(
          group, own, [&](int to) { return packed.to[size_t(to)]; },
          [&](int from, const std::byte* bytes) { clock_.times.moved_bytes += parts.take(phase, from, bytes); },
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

  /// Sends every other member `sent` of the source, and hands what comes from each member (also this one) to
  /// `take(from, bytes)`; `expected(from)` elements come.
  template <class Take, class Expected>
  bool exchange(Group& group, const CollectiveCall& call, const std::function<Piece(int)>& sent, const Take& take,
                const Expected& expected) {
    const int64_t size = bytes_per_element(call.type);
    const double start = wall_seconds();
    const Header header = header_of(group, call);
    std::vector<std::unique_ptr<Message>> incoming, all;
    std::vector<int> senders;
    for (int j = 0; j < int(group.ranks.size()); ++j) {
      if (j == group.member) continue;
      senders.push_back(j);
      incoming.push_back(job_.group().receive(process(group, j), tag(group.ranks[size_t(j)], rank_),
                                              sizeof header + size_t(expected(j) * size)));
    }
    for (int j : senders) {
      const Piece piece = sent(j);
      std::vector<std::byte> bytes(sizeof header + size_t(piece.elements() * size));
      std::memcpy(bytes.data(), &header, sizeof header);
      copy_out(call.source, piece, size, bytes.data() + sizeof header);
      all.push_back(job_.group().send(process(group, j), tag(rank_, group.ranks[size_t(j)]), std::move(bytes)));
    }
    std::vector<std::byte> own(size_t(expected(group.member) * size));
    copy_out(call.source, sent(group.member), size, own.data());
    const double packed = wall_seconds();
    const bool complete = wait(incoming, group, call) && agree(incoming, senders, group, call, header);
    clock_.times.idle_seconds += wall_seconds() - packed;
    if (!complete) return false;
    const double arrived = wall_seconds();
    for (size_t i = 0; i < senders.size(); ++i) take(senders[i], incoming[i]->bytes().data() + sizeof header);
    take(group.member, own.data());
    clock_.times.transfer_seconds += packed - start + wall_seconds() - arrived;
    return wait(all, group, call);
  }

  int process(const Group& group, int member) const { return process_of_[size_t(group.ranks[size_t(member)])]; }
  int tag(int from, int to) const { return first_free_tag + from * state_.ranks() + to; }

  Header header_of(Group& group, const CollectiveCall& call) const {
    const std::string words = text(call);
    Header out;
    out.number = group.number++;
    out.hash = std::hash<std::string>{}(words);
    std::memcpy(out.text, words.data(), std::min(words.size(), sizeof out.text - 1));
    return out;
  }

  /// False, with the run failed or failing, if the messages do not come.
  bool wait(const std::vector<std::unique_ptr<Message>>& messages, const Group& group, const CollectiveCall& call) {
    SignalPatience patience;
    const bool done = wait_for(messages, [&] { return state_.aborted() || patience.is_over(); });
    if (!done && !state_.aborted()) {
      std::vector<std::string> others;
      for (const int rank : group.ranks)
        if (process_of_[size_t(rank)] != job_.process())
          others.push_back(fmt::format("{} ({})", state_.describe(rank), job_.describe(process_of_[size_t(rank)])));
      state_.fail(rank_,
                  fmt::format("told to stop by a signal while it waited in {} for {}; if nobody stopped the run, "
                              "one of these processes has died",
                              text(call), fmt::join(others, ", ")));
    }
    return done;
  }

  bool agree(const std::vector<std::unique_ptr<Message>>& incoming, const std::vector<int>& senders, const Group& group,
             const CollectiveCall& call, const Header& own) {
    for (size_t i = 0; i < senders.size(); ++i) {
      Header header;
      std::memcpy(&header, incoming[i]->bytes().data(), sizeof header);
      header.text[sizeof header.text - 1] = '\0';
      if (!incoming[i]->truncated() && header.number == own.number && header.hash == own.hash) continue;
      state_.fail(rank_, fmt::format("ranks met in different collectives:\n  {}: {}\n  {}: {}", state_.describe(rank_),
                                     text(call), state_.describe(group.ranks[size_t(senders[i])]), header.text));
      return false;
    }
    return true;
  }

  const int rank_;
  RunState& state_;
  Job& job_;
  const ProcessOfRank process_of_;
  RankClock clock_;
  std::vector<Group> groups_, leaders_;                            ///< per mesh axis
  std::map<std::pair<int, int>, Group> pairs_;                     ///< by sender and receiver
  std::map<std::pair<int, std::vector<int64_t>>, Levels> levels_;  ///< by axis and hosts
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> message_communicators(const Mesh& mesh, const std::vector<double>& duties,
                                                                 RunState& state, const std::vector<bool>& on_gpu,
                                                                 Job& job, const ProcessOfRank& process_of) {
  std::vector<std::unique_ptr<Communicator>> out(size_t(mesh.device_count()));
  for (int rank = 0; rank < mesh.device_count(); ++rank) {
    if (process_of[size_t(rank)] != job.process()) continue;
    auto communicator = std::make_unique<MessageCommunicator>(rank, duties[size_t(rank)], state, job, process_of);
    for (int axis = 0; axis < int(mesh.axes.size()); ++axis) {
      const std::vector<int> members = mesh.group(rank, axis);
      communicator->join(members, leaders_of(members, on_gpu));
    }
    out[size_t(rank)] = std::move(communicator);
  }
  return out;
}

}  // namespace hetsynth
