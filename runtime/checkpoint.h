// Checkpoints: parameters and optimizer states as whole tensors, so that they load under any plan, on any cluster.
#pragma once
#include <cstdint>
#include <string>

#include "runtime/executor.h"

namespace hetsynth {

/// Writes all parameters and states, the number of the next step and the seed, as one safetensors file, atomically.
void save_checkpoint(const std::string& path, const Executor& executor, int64_t next_step);

struct CheckpointInfo {
  int64_t next_step = 0;
  uint64_t seed = 0;
};

/// Which step and seed a checkpoint continues with. Throws UserError as load_checkpoint.
CheckpointInfo read_checkpoint_info(const std::string& path);

/// Sets all parameters and states. Every tensor is checked before the first is set. Throws UserError naming the file
/// and tensor if one is missing or has another shape, or if the file is damaged; tensors the program does not have are
/// refused too, since they belong to another model.
CheckpointInfo load_checkpoint(const std::string& path, Executor& executor);

}  // namespace hetsynth
