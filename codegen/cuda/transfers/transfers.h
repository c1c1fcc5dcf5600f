// Collectives as NCCL calls: which calls, over which pieces, through which packing. NCCL has no collectives of uneven
// counts, so these become grouped calls or padded ones, as the plan says.
#pragma once
#include <string>
#include <vector>

#include "codegen/cuda/kernels/kernel.h"

namespace hetsynth::codegen::cuda {

/// Somewhere in the rank's memory: the source or the result of one of the step's collectives, or scratch of the step,
/// plus a number of elements.
struct Spot {
  enum class Kind : uint8_t { source, result, scratch };
  Kind kind = Kind::source;
  int scratch = 0;
  int64_t offset = 0;
  int collective = 0;
  bool operator==(const Spot&) const = default;
};

struct NcclCall {
  enum class Kind : uint8_t { all_gather, all_reduce, reduce_scatter, broadcast, reduce, send, receive };
  /// The ranks that take part: all along the axis, or, of a hierarchical collective, those on this host, or the hosts'
  /// leaders. What is sent along the axis goes over a communicator and a stream of its own, one for each direction, so
  /// that it waits neither for collectives nor for what is sent the other way.
  enum class Over : uint8_t { group, host, leaders, rising, falling };
  Kind kind;
  Spot from, to;
  int64_t count = 0;  ///< elements, as the call takes it
  int peer = -1;      ///< root or peer, as number among the ranks that take part
  int collective = 0;
  Over over = Over::group;
  int phase = 0;  ///< calls of a phase begin when those of the one before are done
};

/// What a collective, or a bucket of them, does on one rank, all on one stream: packing, the calls (phase by phase, one
/// group each if more than one), unpacking.
struct Transfer {
  struct Copy {
    Spot from, to;
    int64_t count = 0;
  };
  struct Repack {
    PieceCopy pieces;
    Spot from, to;
    Spot own = {};  ///< where PieceCopy::own lies
  };
  std::vector<Repack> pack;
  std::vector<Copy> copies_before, copies_after;
  std::vector<NcclCall> calls;  ///< in the order of their phases
  bool through_host = false;    ///< the group holds cpu devices: one call of the ABI, and nothing of the rest
  std::vector<Repack> unpack;
  struct Scratch {
    int64_t elements = 0;
    int collective = 0;
  };
  std::vector<Scratch> scratch;
  std::vector<std::string> shares;  ///< by collective: "shares of 10, 20, 34"
};

/// Calls [first, last) of one phase, and whether they stand in a group: several, or one that sends or receives (its
/// peer may have others beside it).
struct NcclPhase {
  size_t first, last;
  bool grouped;
};
std::vector<NcclPhase> phases_of(const std::vector<NcclCall>& calls);

/// Of the collectives among a rank's operators that `ops` names: one, or those of a bucket.
Transfer plan_transfer(const SpmdProgram& program, const LocalProgram& local, const std::vector<int>& ops);

}  // namespace hetsynth::codegen::cuda
