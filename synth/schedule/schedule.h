// What an SPMD program costs: time per device and memory per device, read off the program itself.
#pragma once
#include <array>
#include <span>
#include <vector>

#include "dsl/spmd/plan.h"
#include "synth/model/problem.h"
#include "synth/schedule/attention_runs.h"

namespace hetsynth::synth {

/// Index of the last instruction before which each value is needed: the last that reads it, or in whose loop what reads
/// it is made, or of the loop that does so in every turn; the number of instructions for what outlives the step.
/// `attention`: of this program. `stored`: see stored_values.
std::vector<int> last_uses(const Problem& problem, const SpmdProgram& spmd, const AttentionRuns& attention,
                           const std::vector<char>& stored);

/// Index of the instruction from which on each value needs its storage, which is the one that makes it, but the loop's
/// first for a tensor that a loop fills turn by turn; -1 for leaves.
std::vector<int> made_at(const Problem& problem, const SpmdProgram& spmd);

/// By value: has storage of its own. Not what lives inside a fused loop, unless something else than that loop reads or
/// makes it, nor a leaf's new contents that can be written over the old ones. `attention`: of this program.
std::vector<char> stored_values(const Problem& problem, const SpmdProgram& spmd, const AttentionRuns& attention);

/// When each value lies in memory, by value.
struct Storage {
  std::vector<char> stored;  ///< at all
  std::vector<int> made;     ///< from this instruction on: see made_at
  std::vector<int> last;     ///< to this one: see last_uses
};

/// What stored_values, made_at and last_uses say, and blocks of attention that are made again for a gradient that does
/// not run in blocks: from its beginning on.
Storage storage_of(const Problem& problem, const SpmdProgram& spmd);

/// What of a tensor is cut, by mesh axis.
using Cuts = std::array<CutClass, max_axes>;

/// Bytes in use on a device at points of the schedule, as functions of its fractions of the dimension classes. Points
/// are at least every instruction after which something is freed: between two of these memory only grows.
struct MemoryProfile {
  std::vector<Cuts> cuts;     ///< all that tensors are cut by, in ascending order
  std::vector<NodeId> nodes;  ///< by point: of the instruction that is running; -1: none has begun
  std::vector<double> bytes;  ///< of whole tensors, by [point][cuts]
  std::span<const double> at(size_t point) const { return {bytes.data() + point * cuts.size(), cuts.size()}; }
};
MemoryProfile memory_profile(const Problem& problem, const SpmdProgram& spmd);

/// Peak bytes by device: leaves are resident, every other value from its instruction to its last use; new contents of
/// leaves replace the old ones where nothing reads those any more. Tensors that live only inside a fused loop (see
/// CostModel) take none.
std::vector<int64_t> peak_memory(const Problem& problem, const Shares& shares, const SpmdProgram& spmd);

/// The same, with the node that is being computed then.
struct MemoryPeak {
  int64_t bytes = 0;
  NodeId node = -1;
};
std::vector<MemoryPeak> memory_peaks(const Problem& problem, const Shares& shares, const SpmdProgram& spmd);

/// Memory of every device, and its limit; nothing else is set. `bytes`: by device.
std::vector<DevicePrediction> predicted_memory(const Cluster& cluster, const std::vector<int64_t>& bytes);
std::vector<DevicePrediction> predict_memory(const Problem& problem, const Shares& shares, const SpmdProgram& spmd);

/// Time, share of the work and memory of every device. Sets neither bound nor baselines.
Prediction predict(const Problem& problem, const Shares& shares, const SpmdProgram& spmd);
/// The same, where memory is known.
Prediction predict(const Problem& problem, std::vector<DevicePrediction> memory, const SpmdProgram& spmd);

}  // namespace hetsynth::synth
