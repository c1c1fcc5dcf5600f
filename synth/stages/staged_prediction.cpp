#include "synth/stages/staged_prediction.h"

#include <utility>

#include "synth/schedule/memory.h"
#include "synth/schedule/memory_budget.h"
#include "synth/schedule/schedule.h"

namespace hetsynth::synth {

std::vector<DevicePrediction> memory_of_stages(const Problem& problem, const SpmdProgram& staged) {
  std::vector<int64_t> bytes;
  for (const MemoryBreakdown& peak : memory_at_peak(problem, staged)) bytes.push_back(peak.total());
  return predicted_memory(problem.cluster, bytes);
}

double fullness(const Problem& problem, const std::vector<DevicePrediction>& memory, size_t device) {
  const int64_t budget = memory_budget(problem, device);
  return budget > 0 ? double(memory[device].memory_bytes) / double(budget) : 0;
}

int fullest_stage(const Problem& problem, const std::vector<DevicePrediction>& memory, int group_size) {
  int stage = -1;
  double most = 1;
  for (size_t d = 0; d < memory.size(); ++d) {
    const double full = fullness(problem, memory, d);
    if (full <= most) continue;
    most = full;
    stage = int(d) / group_size;
  }
  return stage;
}

Plan pipeline_plan(const Problem& problem, SpmdProgram staged, const std::vector<DevicePrediction>& memory,
                   const Cluster& cluster) {
  Plan plan = identify_plan(problem.program, problem.analysis->program_hash(), problem.cluster);
  plan.cluster_hash = hash_text(cluster);
  plan.prediction = predict(problem, memory, staged);
  plan.program = std::move(staged);
  plan.prediction.objective_seconds = plan.prediction.step_seconds;
  return plan;
}

}  // namespace hetsynth::synth
