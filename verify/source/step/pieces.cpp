// What is read of a tensor that lies in memory in pieces, as what a loop filled turn by turn. A block is recognised by
// some of its elements, or by some turns of the loops that it is summed over, which read some of the pieces: addresses
// are linear, so that those between are read by the elements and turns that were not looked at.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "verify/source/step/arena_contents.h"

namespace hetsynth::source {

/// Whether the pieces, one behind the other, are consecutive parts of a tensor that the program joins of parts, in
/// either direction. Nothing: the first and the last of them are not where they would be in one.
std::optional<bool> ContentsWalk::joined(const std::vector<const Resident*>& pieces) const {
  const Resident& first = *pieces.front();
  const int64_t size = first.end - first.begin, distance = pieces.back()->begin - first.begin;
  std::optional<bool> out;
  for (const int maker : meaning_.joins()) {
    const std::vector<ValueId>& parts = program_.instructions[size_t(maker)].operands;
    const auto position = [&](const Resident& piece) -> int64_t {
      const auto is_piece = [&](ValueId part) { return piece.value >= 0 && meaning_.same(part, piece.value); };
      return std::ranges::find_if(parts, is_piece) - parts.begin();
    };
    const int64_t begin = position(first), end = position(*pieces.back()), none = int64_t(parts.size());
    if (begin == none || end == none || std::abs(end - begin) * size != distance) continue;
    const int64_t step = begin < end ? 1 : -1;
    bool all = int64_t(pieces.size()) == std::abs(end - begin) + 1;
    for (size_t k = 0; all && k < pieces.size(); ++k) {
      const Resident& piece = *pieces[k];
      all = piece.value >= 0 && !piece.position && piece.begin == first.begin + int64_t(k) * size &&
            piece.end == piece.begin + size && piece.strides == first.strides &&
            meaning_.same(piece.value, parts[size_t(begin + int64_t(k) * step)]);
    }
    out = out.value_or(false) || all;
  }
  return out;
}

/// What only the program's join could tell: through a pointer whose parameter is not known anything may have been read,
/// and of what a region writes over, what lay there is read by executions that are given up.
bool ContentsWalk::may_be_anything(const Region& region, const Memory::Read& read, const Resident& there) {
  return read.parameter < 0 || std::ranges::any_of(region.written(), [&](const Written& block) {
           return block.begin < there.end && there.begin < block.end;
         });
}

void ContentsWalk::expect_pieces(const Region& region) const {
  const Resident* before = nullptr;
  int parameter = -1;
  for (const Memory::Read& read : read_through_) {
    const Resident* there = memory_.at(read.begin);
    if (before && there && read.parameter == parameter && before->end < there->begin) {
      const std::optional<bool> right = joined(memory_.within(before->begin, there->end));
      const int line = region.written().front().line;
      const std::string between = fmt::format("of what is read in pieces, bytes {} to {}", before->end, there->begin);
      if (right == false) throw Differs(between + " are not those between in the tensor that is joined of them", line);
      if (!right && !may_be_anything(region, read, *before) && !may_be_anything(region, read, *there))
        throw NotFollowed(between + " were not looked at", line);
    }
    before = there;
    parameter = read.parameter;
  }
}

}  // namespace hetsynth::source
