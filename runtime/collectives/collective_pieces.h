// Which part of a collective's buffers goes from one member of a group to another.
#pragma once
#include <cstddef>
#include <cstdint>

#include "runtime/collectives/communicator.h"

namespace hetsynth {

/// Runs of elements at equal distances.
struct Piece {
  int64_t offset = 0, runs = 1, run = 0, stride = 0;
  int64_t elements() const { return runs * run; }
};

/// What member `from` of the group hands to member `to`, in the source of `from`. Every member can tell for any other,
/// as all call alike. Of a send member 0 sends and member 1 receives. An all-reduce of `members` is cut into equal
/// shares, of which each member reduces one.
Piece piece_sent(const CollectiveCall& call, int from, int to, int members);

/// Where it lies in the destination of `to`. Not for collectives that reduce.
Piece piece_received(const CollectiveCall& call, int from, int to);

/// The share of `count` elements that a member of an all-reduce reduces for all.
Piece all_reduce_share(int64_t count, int member, int members);

int64_t bytes_per_element(ElementType type);

/// Between a buffer with gaps and one without. Return the bytes copied.
int64_t copy_out(const void* buffer, const Piece& piece, int64_t element_bytes, std::byte* packed);
int64_t copy_in(const std::byte* packed, const Piece& piece, int64_t element_bytes, void* buffer);

}  // namespace hetsynth
