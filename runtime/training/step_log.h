// The machine-readable record of a training run: one JSON object per line and step.
#pragma once
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "runtime/rank/energy.h"
#include "runtime/training/optimizer_numbers.h"
#include "runtime/training/progress.h"

namespace hetsynth {

/// Throws UserError if a step log cannot be begun or continued at `path`, as far as that can be known. Changes nothing.
void check_step_log(const std::string& path);

/// A file that already holds such records is appended to; a file that holds anything else is refused, so nothing is
/// ever lost.
class StepLog {
 public:
  /// Throws UserError if the file cannot be written or holds something else.
  StepLog(const std::string& path, std::vector<std::string> devices, WorkUnit unit, std::vector<int64_t> arena_bytes);
  /// Writes and flushes one record. Throws UserError if the disk refuses.
  void add(const StepReport& report, const OptimizerReport& optimizer = {});
  /// The same for a record of something else: a JSON object that begins with the key "step".
  void add(const std::string& record);
  /// From now on steps are those of these devices.
  void show(const std::vector<std::string>& devices, const std::vector<int64_t>& arena_bytes);

 private:
  std::string path_;
  std::vector<std::string> devices_;
  WorkUnit unit_;
  std::vector<int64_t> arena_bytes_;
  std::ofstream file_;
  EnergyMeter energy_;
};

/// {"step":0,"loss":5.54,"seconds":0.21,"tokens_per_second":4876.2,"idle":{"fast0":0.02},"compute_seconds":{...},"communication_bytes":{...},
///  "memory_bytes":{"fast0":1048576},"resident_bytes":...}. A loss that is not finite is null.
/// What the model tells beside the loss follows it: "metrics":{"accuracy":0.5}; then, of the optimizer, what is known:
/// "learning_rate":0.001,"loss_scale":65536.0,"skipped_steps":2. `joules`: that this machine's processors took since
/// the record before, if the system tells it: "energy_joules":12.5.
std::string json_of_step(const StepReport& report, const std::vector<std::string>& devices, const WorkUnit& unit,
                         const std::vector<int64_t>& arena_bytes, const OptimizerReport& optimizer = {},
                         std::optional<double> joules = {});

}  // namespace hetsynth
