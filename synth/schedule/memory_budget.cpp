#include "synth/schedule/memory_budget.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "synth/schedule/memory_floor.h"

namespace hetsynth::synth {
namespace {

/// The device that would need the largest multiple of its limit, if any is over it. `limits`: by device; 0: none.
std::optional<size_t> overfull(const Prediction& prediction, const std::vector<int64_t>& limits) {
  std::optional<size_t> worst;
  double excess = 1;
  for (size_t d = 0; d < limits.size(); ++d) {
    const double fullness = limits[d] > 0 ? double(prediction.devices[d].memory_bytes) / double(limits[d]) : 0;
    if (fullness > excess) excess = fullness, worst = d;
  }
  return worst;
}

Diagnostic does_not_fit(const Problem& problem, const std::string& plan_name, const DevicePrediction& device,
                        int64_t limit, const std::string& mend_first) {
  SourceLocation where;
  where.file = problem.cluster.file;
  return {.where = where,
          .tag = "memory",
          .message = fmt::format("{} does not fit into the memory of device {}", plan_name, device.device),
          .expected = fmt::format("at most {}", bytes_text(double(limit))),
          .found = fmt::format("{} needed", bytes_text(double(device.memory_bytes))),
          .mend = mend_first + "use a smaller batch or model, or devices with more memory"};
}

}  // namespace

void check_memory(const Problem& problem, const Prediction& prediction, const std::string& plan_name,
                  const std::string& mend_first) {
  std::vector<int64_t> limits;
  for (const DevicePrediction& device : prediction.devices) limits.push_back(device.memory_limit_bytes);
  if (const auto worst = overfull(prediction, limits))
    throw UserError(does_not_fit(problem, plan_name, prediction.devices[*worst], limits[*worst], mend_first),
                    ExitCode::infeasible);
}

void check_memory_budget(const Problem& problem, const Prediction& prediction, const std::string& plan_name) {
  std::vector<int64_t> limits, nearly;
  for (size_t d = 0; d < prediction.devices.size(); ++d) {
    limits.push_back(memory_budget(problem, d));
    nearly.push_back(prediction.devices[d].memory_limit_bytes / 10 * 11);
  }
  if (overfull(prediction, nearly)) check_memory(problem, prediction, plan_name);
  if (const auto worst = overfull(prediction, limits))
    throw NearlyFits(does_not_fit(problem, plan_name, prediction.devices[*worst], limits[*worst], ""),
                     ExitCode::infeasible);
}

}  // namespace hetsynth::synth
