// Hierarchical all-to-alls of a cuda rank as NCCL calls: what stays in a host goes where it belongs, the rest to the
// leader; leaders exchange a block per pair of hosts and hand to every device what each sender has for it.
#include <fmt/format.h>

#include <algorithm>

#include "dsl/spmd/hosts.h"
#include "verify/source/cuda/device.h"

namespace hetsynth::source {
namespace {

/// Elements of blocks that lie one behind the other, those of one host left out.
class Blocks {
 public:
  Blocks(int64_t begin, int64_t width, const std::vector<int64_t>& cut, int without)
      : begin_(begin), width_(width), cut_(cut), without_(size_t(without)) {}
  int64_t place(int host) const {
    return begin_ + width_ * (cut_[size_t(host)] - (size_t(host) > without_ ? left_out() : 0));
  }
  int64_t all() const { return width_ * (cut_.back() - left_out()); }

 private:
  int64_t left_out() const { return cut_[without_ + 1] - cut_[without_]; }
  int64_t begin_, width_;
  const std::vector<int64_t>& cut_;
  size_t without_;
};

int64_t length(const std::vector<int64_t>& cut, int p) { return cut[size_t(p) + 1] - cut[size_t(p)]; }

}  // namespace

std::vector<DeviceWalk::Call> DeviceWalk::exchanged_by_host(const Instruction& i) const {
  const Shape& shape = node_of(i.result).type.shape;
  const std::vector<int64_t> cut = bounds(i.table, shape[size_t(i.dim)]),
                             to = bounds(i.to_table, shape[size_t(i.to_dim)]);
  const GroupHosts hosts = hosts_of_group(program_, i.axis, source_.rank);
  const std::vector<int64_t> cut_by_host = bounds_by_host(hosts, cut), to_by_host = bounds_by_host(hosts, to);
  const int me = program_.mesh.coordinate(source_.rank, i.axis), own = hosts.host, leader = hosts.leader();
  const int ranks = int(cut.size()) - 1;
  int64_t others = 1;
  const std::vector<Range> part = part_of(i.result);
  for (size_t d = 0; d < part.size(); ++d)
    if (int(d) != i.dim && int(d) != i.to_dim) others *= part[d].hi - part[d].lo;
  const int64_t mine = length(cut, me) * others, ours = length(to, me) * others;
  std::vector<Call> out;
  const auto send = [&](int phase, int64_t elements, int peer, Place from) {
    if (elements > 0) out.push_back(call_of_phase(i, phase, "ncclSend", elements, peer, from, {Base::result, 0}));
  };
  const auto receive = [&](int phase, int64_t elements, int peer, Place into) {
    if (elements > 0) out.push_back(call_of_phase(i, phase, "ncclRecv", elements, peer, {Base::operand, 0}, into));
  };
  const auto to_rank = [&](int p) { return Place{Base::operand, mine * to[size_t(p)]}; };
  const auto to_host = [&](int h) { return Place{Base::operand, mine * to_by_host[size_t(h)]}; };
  const auto of_rank = [&](int p) { return Place{Base::result, ours * cut[size_t(p)]}; };
  if (hosts.members(own) == 1) {
    for (int h = 0; h < hosts.count(); ++h) {
      send(1, mine * length(to_by_host, h), h, to_host(h));
      receive(1, ours * length(cut_by_host, h), h, {Base::result, ours * cut_by_host[size_t(h)]});
    }
    return out;
  }
  for (int p = leader; p < hosts.end(); ++p) {
    send(0, mine * length(to, p), p - leader, to_rank(p));
    receive(0, ours * length(cut, p), p - leader, of_rank(p));
  }
  for (int h = 0; h < hosts.count(); ++h)
    if (h != own) send(0, mine * length(to_by_host, h), 0, to_host(h));
  if (me == leader) {
    const int64_t held = length(cut_by_host, own) * others, wanted = length(to_by_host, own) * others;
    const Blocks leaving(0, held, to_by_host, own), arriving(leaving.all(), wanted, cut_by_host, own);
    for (int p = leader; p < hosts.end(); ++p)
      for (int h = 0; h < hosts.count(); ++h) {
        const int64_t row = length(to_by_host, h) * others;
        if (h != own)
          receive(0, length(cut, p) * row, p - leader,
                  {Base::middle, leaving.place(h) + (cut[size_t(p)] - cut_by_host[size_t(own)]) * row});
      }
    for (int h = 0; h < hosts.count(); ++h) {
      if (h == own) continue;
      send(1, held * length(to_by_host, h), h, {Base::middle, leaving.place(h)});
      receive(1, wanted * length(cut_by_host, h), h, {Base::middle, arriving.place(h)});
    }
    for (int p = leader; p < hosts.end(); ++p)
      for (int q = 0; q < ranks; ++q) {
        if (hosts.here(q)) continue;
        const int h = hosts.host_of(q);
        const int64_t of_sender = arriving.place(h) + (cut[size_t(q)] - cut_by_host[size_t(h)]) * wanted;
        const int64_t row = length(cut, q) * others;
        send(2, row * length(to, p), p - leader,
             {Base::middle, of_sender + row * (to[size_t(p)] - to_by_host[size_t(own)])});
      }
  }
  for (int p = 0; p < ranks; ++p)
    if (!hosts.here(p)) receive(2, ours * length(cut, p), 0, of_rank(p));
  return out;
}

/// A leader calls NCCL for its host though it may hold nothing itself.
bool DeviceWalk::passes_on(const Instruction& i) const {
  return i.opcode == Opcode::all_to_all && i.realisation == Realisation::hierarchical && !by_host(i).empty();
}

/// What a leader holds for others must lie beside the operand, of which some is still to be sent, and the result, of
/// which some has arrived.
void DeviceWalk::expect_middle_apart(const Exchange& e, const std::vector<Call>& wanted) const {
  if (e.middle < 0) return;
  const Instruction& i = *e.instruction;
  int64_t elements = 0;
  for (const Call& call : wanted)
    for (size_t at : {Call::from_at, Call::to_at})
      if (call.in[at] == Base::middle) elements = std::max(elements, call.numbers[at] + call.numbers[Call::count]);
  const int64_t end = e.middle + elements * size_bytes(node_of(i.result).type.dtype);
  const auto expect = [&](int64_t begin, int64_t bytes, const char* which) {
    if (begin >= 0 && begin < end && e.middle < begin + bytes)
      throw Differs(fmt::format("what the leader holds for other devices in the hierarchical {}, bytes {} to {}, "
                                "overlaps the {}",
                                description(i), e.middle, end, which),
                    e.calls.front().line, program_.values[size_t(i.result)].node);
  };
  expect(e.source, meaning_.bytes(i.operands[0]), "operand");
  expect(e.target, meaning_.bytes(i.result), "result");
}

}  // namespace hetsynth::source
