// Hierarchical collectives of a cuda rank as NCCL calls: group by group to the leader of its host, among the leaders,
// and from it.
#include <algorithm>
#include <set>

#include "dsl/spmd/hosts.h"
#include "verify/source/cuda/device.h"

namespace hetsynth::source {

int DeviceWalk::me_among(Over over, int axis) const {
  const int coordinate = program_.mesh.coordinate(source_.rank, axis);
  if (over != Over::host && over != Over::leaders) return coordinate;
  const GroupHosts hosts = hosts_of_group(program_, axis, source_.rank);
  return over == Over::leaders ? hosts.host : coordinate - hosts.leader();
}

int DeviceWalk::count_of(Over over, int axis) const {
  if (over != Over::host && over != Over::leaders) return program_.mesh.axes[size_t(axis)].size;
  const GroupHosts hosts = hosts_of_group(program_, axis, source_.rank);
  return over == Over::leaders ? hosts.count() : hosts.members(hosts.host);
}

/// Whether the group was the last phase of these hierarchical collectives.
bool DeviceWalk::end_phase(const std::vector<const Instruction*>& members) {
  std::set<int> wanted;
  for (const Instruction* i : members)
    for (const Call& call : by_host(*i)) wanted.insert(call.phase);
  phases_.push_back(std::move(group_));
  group_.clear();
  return phases_.size() >= wanted.size();
}

DeviceWalk::Call DeviceWalk::call_of_phase(const Instruction& i, int phase, const char* name, int64_t elements,
                                           int64_t peer, Place from, Place to) const {
  Call out{name, std::vector<int64_t>(Call::how_many, -1), i.axis, 0};
  out.over = phase == 1 ? Over::leaders : Over::host;
  out.phase = phase;
  out.in = {from.base, to.base};
  out.numbers[Call::from_at] = from.elements;
  out.numbers[Call::to_at] = to.elements;
  out.numbers[Call::count] = elements;
  out.numbers[Call::peer] = peer;
  return out;
}

/// Those of a hierarchical collective on this rank: to the leader of its host, among the leaders, and from it.
std::vector<DeviceWalk::Call> DeviceWalk::by_host(const Instruction& i) const {
  const GroupHosts hosts = hosts_of_group(program_, i.axis, source_.rank);
  const int me = program_.mesh.coordinate(source_.rank, i.axis), leader = hosts.leader(), end = hosts.end();
  const bool leads = me == leader, alone = end - leader == 1;
  std::vector<Call> out;
  const auto call = [&](int phase, const char* name, int64_t elements, int64_t root, Base from, int64_t from_place,
                        Base to, int64_t to_place) {
    if (elements > 0) out.push_back(call_of_phase(i, phase, name, elements, root, {from, from_place}, {to, to_place}));
  };
  constexpr Base operand = Base::operand, result = Base::result, middle = Base::middle;
  if (i.opcode == Opcode::all_reduce) {
    const int64_t all = elements(i.operands[0]);
    if (!alone) call(0, "ncclReduce", all, 0, operand, 0, result, 0);
    if (leads && hosts.count() > 1) call(1, "ncclAllReduce", all, -1, alone ? operand : result, 0, result, 0);
    if (!alone) call(2, "ncclBroadcast", all, 0, result, 0, result, 0);
    return out;
  }
  if (i.opcode == Opcode::broadcast) {
    const int64_t all = elements(i.result);
    const Base given = me == i.root ? operand : result;
    const bool with_root = hosts.here(i.root);
    if (with_root && !alone) call(0, "ncclBroadcast", all, i.root - leader, given, 0, result, 0);
    if (leads && hosts.count() > 1)
      call(1, "ncclBroadcast", all, hosts.host_of(i.root), alone ? given : result, 0, result, 0);
    if (!with_root && !alone) call(2, "ncclBroadcast", all, 0, result, 0, result, 0);
    return out;
  }
  if (i.opcode == Opcode::all_to_all) return exchanged_by_host(i);
  const bool gathers = i.opcode == Opcode::all_gather;
  const std::vector<Range> whole = part_of(gathers ? i.result : i.operands[0]);
  const int64_t each = part_elements(whole, 0, size_t(i.dim)) * part_elements(whole, size_t(i.dim) + 1, whole.size());
  std::vector<int64_t> cut = bounds(i.table, node_of(i.result).type.shape[size_t(i.dim)]);
  for (int64_t& bound : cut) bound *= each;
  const auto length = [&](int p) { return cut[size_t(p) + 1] - cut[size_t(p)]; };
  const std::vector<int64_t> blocks = bounds_by_host(hosts, cut);
  bool alike = true;
  for (size_t h = 0; h + 1 < blocks.size(); ++h) alike = alike && blocks[h + 1] - blocks[h] == blocks[1];
  if (gathers) {
    if (!leads) call(0, "ncclSend", length(me), 0, operand, 0, result, 0);
    for (int p = leader + 1; leads && p < end; ++p)
      call(0, "ncclRecv", length(p), p - leader, operand, 0, result, cut[size_t(p)]);
    if (leads && hosts.count() > 1 && alike)
      call(1, "ncclAllGather", blocks[1], -1, result, blocks[size_t(hosts.host)], result, 0);
    for (int h = 0; leads && hosts.count() > 1 && !alike && h < hosts.count(); ++h)
      call(1, "ncclBroadcast", blocks[size_t(h) + 1] - blocks[size_t(h)], h, result, blocks[size_t(h)], result,
           blocks[size_t(h)]);
    if (!alone) call(2, "ncclBroadcast", cut.back(), 0, result, 0, result, 0);
    return out;
  }
  const Base sum = alone ? operand : middle;
  if (!alone) call(0, "ncclReduce", cut.back(), 0, operand, 0, middle, 0);
  const auto target = [&](int h) { return alone ? 0 : blocks[size_t(h)]; };
  if (leads && hosts.count() > 1 && alike)
    call(1, "ncclReduceScatter", blocks[1], -1, sum, 0, alone ? result : middle, target(hosts.host));
  for (int h = 0; leads && hosts.count() > 1 && !alike && h < hosts.count(); ++h)
    call(1, "ncclReduce", blocks[size_t(h) + 1] - blocks[size_t(h)], h, sum, blocks[size_t(h)], alone ? result : middle,
         target(h));
  for (int p = leader + 1; leads && p < end; ++p)
    call(2, "ncclSend", length(p), p - leader, middle, cut[size_t(p)], result, 0);
  if (!leads) call(2, "ncclRecv", length(me), 0, operand, 0, result, 0);
  return out;
}

/// The collective's part of every phase. What is too much counts as the last one's.
DeviceWalk::Exchange DeviceWalk::exchange_by_host(const Instruction& i, std::vector<std::vector<Call>>& phases,
                                                  bool last) const {
  Exchange out;
  out.instruction = &i;
  out.from.value = i.operands[0];
  out.to.value = i.result;
  const std::vector<Call> wanted = by_host(i);
  std::set<int> numbered;
  for (const Call& call : wanted) numbered.insert(call.phase);
  std::vector<Call> in_order;
  auto number = numbered.begin();
  for (std::vector<Call>& phase : phases) {
    const size_t own = number == numbered.end() ? 0 : size_t(std::ranges::count(wanted, *number, &Call::phase));
    const size_t taken = last ? phase.size() : std::min(own, phase.size());
    for (size_t c = 0; c < taken; ++c) {
      out.calls.push_back(phase[c]);
      out.calls.back().phase = number == numbered.end() ? 0 : *number;
    }
    phase.erase(phase.begin(), phase.begin() + ptrdiff_t(taken));
    if (number != numbered.end()) ++number;
  }
  expect_calls(out, wanted, "hierarchical " + description(i));
  if (i.opcode == Opcode::all_reduce || i.opcode == Opcode::broadcast) return out;
  if (i.opcode == Opcode::all_to_all) {
    move_pieces(i, out);
    expect_middle_apart(out, wanted);
    return out;
  }
  const bool gathers = i.opcode == Opcode::all_gather;
  Shares& shares = gathers ? out.to : out.from;
  shares.dim = i.dim;
  shares.cut = bounds(i.table, node_of(i.result).type.shape[size_t(i.dim)]);
  const GroupHosts hosts = hosts_of_group(program_, i.axis, source_.rank);
  const int me = program_.mesh.coordinate(source_.rank, i.axis);
  if (me != hosts.leader()) return out;
  // A leader's own share lies in its place of the whole: before it is gathered, and when the host's sum is scattered.
  const std::vector<Range> whole = part_of(gathers ? i.result : i.operands[0]);
  const int64_t bytes = part_elements(whole, 0, size_t(i.dim)) * part_elements(whole, size_t(i.dim) + 1, whole.size()) *
                        size_bytes(node_of(i.result).type.dtype) * shares.cut[size_t(me)];
  if (gathers)
    out.source = out.target + bytes;
  else if (out.middle >= 0)
    out.target = out.middle + bytes;
  return out;
}

}  // namespace hetsynth::source
