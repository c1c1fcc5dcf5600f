// What the NCCL calls of a cuda rank move: where shares lie that are sent, and where those that arrive.
#include <algorithm>
#include <set>

#include "verify/source/cuda/device.h"

namespace hetsynth::source {

std::vector<DeviceWalk::Piece> DeviceWalk::pieces_of(const Shares& shares) const {
  const std::vector<Range>& ranges = meaning_.ranges(shares.value);
  const int64_t outer = part_elements(ranges, 0, size_t(shares.dim));
  const int64_t inner = part_elements(ranges, size_t(shares.dim) + 1, ranges.size());
  std::vector<Piece> out;
  for (size_t p = 0; p + 1 < shares.cut.size(); ++p) {
    const Range part{shares.cut[p], shares.cut[p + 1]};
    if (part.lo < part.hi)
      out.push_back({part, shares.stride > 0 ? int64_t(p) * shares.stride : part.lo * outer * inner});
  }
  int64_t begin = 0;
  for (const Range& part : shares.parts) {
    out.push_back({part, outer == 1 ? part.lo * inner : begin});
    begin += outer * (part.hi - part.lo) * inner;
  }
  return out;
}

/// Whether all that the shares have of the value lies as if it lay row-major.
bool DeviceWalk::lie_densely(const Shares& shares) const {
  if (shares.cut.empty() && shares.parts.empty()) return true;
  const std::vector<Range>& ranges = meaning_.ranges(shares.value);
  if (part_elements(ranges, 0, size_t(shares.dim)) != 1) return false;
  const int64_t inner = part_elements(ranges, size_t(shares.dim) + 1, ranges.size());
  for (size_t p = 0; shares.stride > 0 && p + 1 < shares.cut.size(); ++p)
    if ((shares.cut[p + 1] - shares.cut[p]) * inner != shares.stride) return false;
  return true;
}

/// Where the element at an offset of the shares would be if the part lay row-major; -1: none is there.
int64_t DeviceWalk::dense_offset(const Shares& shares, const std::vector<Piece>& pieces, int64_t offset) const {
  const std::vector<Range>& ranges = meaning_.ranges(shares.value);
  const int64_t outer = part_elements(ranges, 0, size_t(shares.dim));
  const int64_t extent = part_elements(ranges, size_t(shares.dim), size_t(shares.dim) + 1);
  const int64_t inner = part_elements(ranges, size_t(shares.dim) + 1, ranges.size());
  for (const auto& [part, begin] : pieces) {
    const int64_t length = part.hi - part.lo, at = offset - begin;
    if (at < 0 || at >= outer * length * inner) continue;
    return (at / (length * inner) * extent + part.lo + at / inner % length) * inner + at % inner;
  }
  return -1;
}

/// How many elements all shares take together, what padded ones are longer by included.
int64_t DeviceWalk::elements_of(const Shares& shares) const {
  if (shares.stride > 0) return shares.stride * int64_t(shares.cut.size() - 1);
  if (shares.parts.empty()) return meaning_.count(shares.value);
  const std::vector<Range>& ranges = meaning_.ranges(shares.value);
  int64_t rows = 0;
  for (const Range& part : shares.parts) rows += part.hi - part.lo;
  return part_elements(ranges, 0, size_t(shares.dim)) * rows *
         part_elements(ranges, size_t(shares.dim) + 1, ranges.size());
}

void DeviceWalk::expect_operand(const Exchange& e) {
  const Instruction& i = *e.instruction;
  const ValueId value = i.operands[0];
  if (i.opcode == Opcode::halo_exchange) expect_own_part(e);
  if (e.source < 0 || !on_rank(value) || meaning_.count(value) == 0) return;
  const std::string what = "the operand of the " + description(i);
  const int line = e.calls.empty() ? 0 : e.calls.front().line;
  memory_.forget_reads();
  if (e.from.parts.empty() ? lie_densely(e.from) : memory_.lies_at(value, e.source)) {
    expect_contents(value, e.source, what, line);
  } else {
    const std::vector<Range>& ranges = meaning_.ranges(value);
    const std::vector<int64_t> strides = dense_strides(ranges, row_major(ranges.size()));
    const int64_t size = size_bytes(meaning_.dtype(value)), outer = part_elements(ranges, 0, size_t(e.from.dim));
    const int64_t each = part_elements(ranges, size_t(e.from.dim) + 1, ranges.size()) * outer;
    const std::vector<Piece> pieces = pieces_of(e.from);
    for (const auto& [part, begin] : pieces) {
      const int64_t length = (part.hi - part.lo) * each;
      for (int64_t at : std::set<int64_t>{0, 1, length / 3, length / 2, length / outer, length - 1}) {
        if (at < 0 || at >= length) continue;
        const Index index = index_at(ranges, strides, dense_offset(e.from, pieces, begin + at));
        expect_element(value, index, e.source, e.source + (begin + at) * size, what, line);
      }
    }
  }
  memory_.understand_reads();
}

void DeviceWalk::put_result(const Exchange& e) {
  const ValueId value = e.instruction->result;
  // What a padded share is longer by is nothing, nor is what a leader holds for others, who may have none itself.
  for (const Call& call : e.calls)
    for (const Touched& access : accesses(call, *e.instruction))
      if (access.writes) memory_.clear(access.begin, access.end);
  if (e.target < 0 || !on_rank(value) || meaning_.count(value) == 0) return;
  const std::vector<Range>& ranges = meaning_.ranges(value);
  const std::vector<int64_t> strides = dense_strides(ranges, row_major(ranges.size()));
  const int64_t size = size_bytes(meaning_.dtype(value));
  if (lie_densely(e.to)) {
    memory_.put({value, e.target, e.target + meaning_.bytes(value), strides});
    return;
  }
  Resident resident{value, e.target, e.target + elements_of(e.to) * size, {}};
  const std::vector<int64_t> whole = row_major_strides(meaning_.shape(value));
  resident.position = [this, shares = e.to, pieces = pieces_of(e.to), strides, whole](int64_t offset) {
    const int64_t dense = dense_offset(shares, pieces, offset);
    if (dense < 0) return int64_t(-1);
    const Index index = index_at(meaning_.ranges(shares.value), strides, dense);
    int64_t out = 0;
    for (size_t d = 0; d < index.size(); ++d) out += index[d] * whole[d];
    return out;
  };
  memory_.put(resident);
}

}  // namespace hetsynth::source
