// What the check of source is given: the text of a rank, where the runtime believes tensors lie in memory, and what to
// take for granted.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dsl/spmd/spmd.h"

namespace hetsynth {

/// A tensor the runtime writes before the step or reads after it.
struct ArenaSlot {
  NodeId node = -1;
  ValueId value = -1;
  int64_t offset_bytes = 0;
};

/// What the runtime is given of a rank: the text it runs, and where it believes tensors lie.
struct RankSource {
  int rank = 0;
  std::string file_name;
  std::string text;      ///< host source
  std::string kernels;   ///< cuda: source of its kernels
  bool buckets = false;  ///< cuda: gradients travel in buckets (dsl/spmd/buckets.h); in all ranks of a plan or in none
  int64_t arena_bytes = 0;
  std::vector<ArenaSlot> leaves;   ///< written before the step; parameters and states are read after it
  std::vector<ArenaSlot> outputs;  ///< read after the step
  ArenaSlot loss;                  ///< node -1: none
};

struct SourceOptions {
  /// Definitions of the helper functions that kernels lean on (exp_f32, row_sum, ...), as trusted: those in the text
  /// must be among them word for word.
  std::string prelude;
  /// Of cuda: the same for kernels, and what the host program declares to call. Both stand in the texts word for word.
  std::string device_prelude, device_declarations;
  std::string attention_declarations;  ///< the same of texts that call for attention
  /// Evaluations of one kernel after which the answer is unknown.
  int64_t work_per_kernel = 1'000'000'000;
  /// Evaluations of what the program means after which the answer is unknown, whatever was looked at until then; 0: any
  /// number.
  int64_t work_in_all = 0;
};

}  // namespace hetsynth
