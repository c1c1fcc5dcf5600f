// What an SPMD program needs of every device's memory, by liveness of its schedule.
#pragma once
#include <array>
#include <string_view>
#include <vector>

#include "dsl/spmd/plan.h"
#include "synth/model/problem.h"

namespace hetsynth {

/// What a value is kept for. Saved activations: made in the forward pass and read after it. Gradients: of parameters,
/// until the optimizer has read them. Collective buffers: results of communication.
enum class MemoryUse : uint8_t {
  parameters,
  optimizer_state,
  inputs,
  saved_activations,
  gradients,
  collective_buffers,
  workspace
};
constexpr int memory_uses = int(MemoryUse::workspace) + 1;
std::string_view name(MemoryUse use);

/// Of a device, where it needs most.
struct MemoryBreakdown {
  int instruction = -1;  ///< -1: before the first one
  std::array<int64_t, memory_uses> bytes{};
  int64_t total() const;
};

/// By rank; totals are the predicted memory of the plan. `cluster` holds the devices of the program's mesh in rank
/// order.
std::vector<MemoryBreakdown> memory_at_peak(const Program& reference, const SpmdProgram& program,
                                            const Cluster& cluster);

namespace synth {

std::vector<MemoryBreakdown> memory_at_peak(const Problem& problem, const SpmdProgram& spmd);

}  // namespace synth
}  // namespace hetsynth
