// Halo exchanges of a cuda rank as NCCL calls: what each other rank wants of this one's part, and what this one wants
// of theirs.
#include "verify/source/cuda/device.h"

namespace hetsynth::source {

/// The calls in the order of the ranks, what goes to a rank before what comes from it; and the rows that they move.
std::vector<DeviceWalk::Call> DeviceWalk::halo(const Instruction& i, Shares& from, Shares& to) const {
  const size_t dim = size_t(i.dim);
  const auto rows = [&](ValueId value, int rank) {
    const Placements& placements = program_.values[size_t(value)].placements;
    return local_ranges(program_, placements, node_of(value).type.shape, rank)[dim];
  };
  const ValueId operand = i.operands[0];
  const std::vector<Range> part = part_of(i.result);
  const int64_t each = part_elements(part, 0, dim) * part_elements(part, dim + 1, part.size());
  const Range own = rows(operand, source_.rank), wide = rows(i.result, source_.rank);
  from.dim = to.dim = i.dim;
  std::vector<Call> out;
  const auto call = [&](bool sends, int64_t peer, Range moved, int64_t first, Shares& shares) {
    if (moved.lo >= moved.hi) return;
    shares.parts.push_back({moved.lo - first, moved.hi - first});
    Call made{sends ? "ncclSend" : "ncclRecv", std::vector<int64_t>(Call::how_many, -1), i.axis, 0};
    made.numbers[Call::count] = (moved.hi - moved.lo) * each;
    made.numbers[Call::peer] = peer;
    out.push_back(made);
  };
  const std::vector<int> group = program_.mesh.group(source_.rank, i.axis);
  for (size_t peer = 0; peer < group.size(); ++peer) {
    if (group[peer] == source_.rank) continue;
    call(true, int64_t(peer), common(own, rows(i.result, group[peer])), own.lo, from);
    call(false, int64_t(peer), common(wide, rows(operand, group[peer])), wide.lo, to);
  }
  const std::vector<Piece> sent = pieces_of(from), received = pieces_of(to);
  size_t sends = 0, receives = 0;
  for (Call& made : out)
    if (made.name == "ncclSend")
      made.numbers[Call::from_at] = sent[sends++].begin;
    else
      made.numbers[Call::to_at] = received[receives++].begin;
  return out;
}

/// A halo exchange that neither takes from others nor gives them anything calls nothing, unless the runtime carries it
/// out.
bool DeviceWalk::is_quiet(const Instruction& i) const {
  if (i.opcode != Opcode::halo_exchange || unit_.functions.count("hetsynth_halo_exchange")) return false;
  Shares from{.value = i.operands[0]}, to{.value = i.result};
  return halo(i, from, to).empty();
}

/// Where rows are received at their place in the result, the own part must lie between them.
void DeviceWalk::expect_own_part(const Exchange& e) {
  const Instruction& i = *e.instruction;
  const ValueId operand = i.operands[0];
  if (e.target < 0 || !lie_densely(e.to) || meaning_.count(operand) == 0) return;
  const std::vector<Range>&own = meaning_.ranges(operand), &wide = meaning_.ranges(i.result);
  const size_t dim = size_t(i.dim);
  const int64_t inner = part_elements(own, dim + 1, own.size());
  const int64_t offset = (own[dim].lo - wide[dim].lo) * inner * size_bytes(meaning_.dtype(operand));
  memory_.forget_reads();
  expect_contents(operand, e.target + offset, "the own part within the " + description(i), e.calls.front().line);
  memory_.understand_reads();
}

}  // namespace hetsynth::source
