#include "runtime/collectives/collective_pieces.h"

#include <algorithm>
#include <cstring>

#include "dsl/base/error.h"

namespace hetsynth {
namespace {

/// Part `member` of a tensor [outer, bounds.back(), inner] that is cut in the middle.
Piece cut(const CollectiveCall& call, int member) {
  const int64_t from = call.bounds[size_t(member)], to = call.bounds[size_t(member) + 1];
  return {from * call.inner, call.outer, (to - from) * call.inner, call.bounds.back() * call.inner};
}

struct Share {
  int64_t from, length;
};
Share share(std::span<const int64_t> bounds, int member) {
  return {bounds[size_t(member)], bounds[size_t(member) + 1] - bounds[size_t(member)]};
}

/// Elements of the cut dimension that a member holds before a halo exchange.
Range own_part(const CollectiveCall& call, int member) {
  return {call.bounds[size_t(member)], call.bounds[size_t(member) + 1]};
}

/// What `to` gets of the part of `from` in a halo exchange.
Range given(const CollectiveCall& call, int from, int to) {
  return common(held_with_halo(call, to), own_part(call, from));
}

/// Elements [lo, hi) of the middle of [outer, within, inner], where `within` is a part of the cut dimension.
Piece part_of(const CollectiveCall& call, const Range& piece, const Range& within) {
  return {(piece.lo - within.lo) * call.inner, call.outer, (piece.hi - piece.lo) * call.inner,
          (within.hi - within.lo) * call.inner};
}

}  // namespace

int64_t bytes_per_element(ElementType type) { return type == ElementType::bf16 || type == ElementType::fp16 ? 2 : 4; }

Piece all_reduce_share(int64_t count, int member, int members) {
  const int64_t from = count * member / members, to = count * (member + 1) / members;
  return {from, 1, to - from, 0};
}

Piece piece_sent(const CollectiveCall& call, int from, int to, int members) {
  switch (call.kind) {
    case CollectiveKind::all_gather:
      return {0, 1, call.outer * share(call.bounds, from).length * call.inner, 0};
    case CollectiveKind::reduce_scatter:
      return cut(call, to);
    case CollectiveKind::all_reduce:
      return all_reduce_share(call.count, to, members);
    case CollectiveKind::broadcast:
      return {0, 1, from == call.root ? call.count : 0, 0};
    case CollectiveKind::send:
      return {0, 1, from == 0 && to == 1 ? call.count : 0, 0};
    case CollectiveKind::halo_exchange:
      return part_of(call, given(call, from, to), own_part(call, from));
    case CollectiveKind::all_to_all: {
      // `from` holds [outer, rows, middle, second, inner] and gives columns of it; or [outer, first, middle, columns,
      // inner] and gives rows.
      const Share held = share(call.bounds, from), given = share(call.bounds_to, to);
      if (call.from_first)
        return {given.from * call.inner, call.outer * held.length * call.middle, given.length * call.inner,
                call.second * call.inner};
      const int64_t row = call.middle * held.length * call.inner;
      return {given.from * row, call.outer, given.length * row, call.first * row};
    }
  }
  throw InternalError("a kind of collective");
}

Piece piece_received(const CollectiveCall& call, int from, int to) {
  switch (call.kind) {
    case CollectiveKind::all_gather:
      return cut(call, from);
    case CollectiveKind::broadcast:
      return {0, 1, from == call.root ? call.count : 0, 0};
    case CollectiveKind::send:
      return {0, 1, from == 0 && to == 1 ? call.count : 0, 0};
    case CollectiveKind::halo_exchange:
      return part_of(call, given(call, from, to), held_with_halo(call, to));
    case CollectiveKind::all_to_all: {
      const Share came = share(call.bounds, from), kept = share(call.bounds_to, to);
      if (call.from_first) {
        const int64_t row = call.middle * kept.length * call.inner;
        return {came.from * row, call.outer, came.length * row, call.first * row};
      }
      return {came.from * call.inner, call.outer * kept.length * call.middle, came.length * call.inner,
              call.second * call.inner};
    }
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce_scatter:
      break;
  }
  throw InternalError("a collective that does not reduce");
}

int64_t copy_out(const void* buffer, const Piece& piece, int64_t element_bytes, std::byte* packed) {
  const auto* from = static_cast<const std::byte*>(buffer) + piece.offset * element_bytes;
  const auto bytes = size_t(piece.run * element_bytes);
  for (int64_t i = 0; i < piece.runs && bytes > 0; ++i)
    std::memcpy(packed + i * int64_t(bytes), from + i * piece.stride * element_bytes, bytes);
  return piece.elements() * element_bytes;
}

int64_t copy_in(const std::byte* packed, const Piece& piece, int64_t element_bytes, void* buffer) {
  auto* to = static_cast<std::byte*>(buffer) + piece.offset * element_bytes;
  const auto bytes = size_t(piece.run * element_bytes);
  for (int64_t i = 0; i < piece.runs && bytes > 0; ++i)
    std::memcpy(to + i * piece.stride * element_bytes, packed + i * int64_t(bytes), bytes);
  return piece.elements() * element_bytes;
}

}  // namespace hetsynth
