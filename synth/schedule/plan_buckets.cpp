#include "synth/schedule/plan_buckets.h"

#include <utility>

#include "dsl/spmd/buckets.h"
#include "synth/schedule/memory_budget.h"
#include "synth/schedule/schedule.h"

namespace hetsynth::synth {

SpmdProgram in_buckets_if_they_fit(const Problem& problem, const Shares& shares, SpmdProgram program) {
  if (problem.cluster.hosts.size() < 2 || !all_of_kind(problem.cluster.devices, DeviceKind::cpu)) return program;
  const auto fits = [&](const SpmdProgram& beside) {
    const std::vector<int64_t> needed = peak_memory(problem, shares, beside);
    for (size_t device = 0; device < needed.size(); ++device)
      if (const int64_t budget = memory_budget(problem, device); budget > 0 && needed[device] > budget) return false;
    return true;
  };
  for (const Beside how : {Beside::ahead, Beside::in_buckets, Beside::alone})
    if (SpmdProgram beside = with_buckets(problem.program, program, how); fits(beside)) return beside;
  return program;
}

}  // namespace hetsynth::synth
