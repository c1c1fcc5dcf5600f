// The stage `generate`: the readable source of one device, and where its tensors lie.
#pragma once
#include <string>
#include <vector>

#include "dsl/cluster/cluster.h"
#include "dsl/spmd/spmd.h"

namespace hetsynth {

struct SourceFile {
  std::string name;  ///< "rank1.cpp", "rank1_kernels.cu"
  std::string text;
};

/// A tensor the runtime reads or writes between steps.
struct Slot {
  NodeId node = -1;
  ValueId value = -1;
  int64_t offset_bytes = 0;   ///< in the arena
  std::vector<Range> ranges;  ///< part of the logical tensor, per dimension
  DType dtype = DType::f32;
};

/// A tensor and what it takes in a rank's arena.
struct NamedBytes {
  std::string name;
  int64_t bytes = 0;
};

struct DeviceProgram {
  int rank = 0;
  DeviceKind kind = DeviceKind::cpu;
  std::string architecture;       ///< cuda: "sm_80"
  std::vector<SourceFile> files;  ///< host source first; cuda: then the kernels
  /// cuda: collectives come in the order of gather_buckets (dsl/spmd/buckets.h) instead of the plan's; on all ranks of
  /// a plan or on none.
  bool buckets = false;
  int64_t arena_bytes = 0;
  std::vector<Slot>
      leaves;  ///< inputs are written before each step; parameters and states hold the new contents after it
  std::vector<Slot> outputs;                ///< named outputs, readable after a step
  std::vector<NamedBytes> largest_tensors;  ///< of the arena, the largest first, three at most
  Slot loss;                                ///< scalar f32, readable after a step; node -1 if the program has none
};

/// Source and memory plan of one rank. The entry point is `extern "C" int hetsynth_step(HetsynthContext*)`.
DeviceProgram generate(const Program& reference, const SpmdProgram& program, const Cluster& cluster, int rank);

}  // namespace hetsynth
