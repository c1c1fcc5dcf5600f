// What happened to a run between its steps, read back from its log (docs/runtime.md, "Balancing", "Validation").
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hetsynth {

/// Another division of the work, and what it brought, by the steps around it.
struct DivisionRecord {
  int64_t step = 0;           ///< the last one before it
  int64_t asked_at = 0;       ///< step at which it was asked for
  int64_t wanted_since = 0;   ///< step at which the change was told of that led to it, or the division before it
  std::string changed;        ///< "shares" or "plan"
  double pause_seconds = 0;   ///< of all that was done between that step and the next one
  double before_seconds = 0;  ///< of a step: the median of the last 20 before it, since speeds changed
  double after_seconds = 0;   ///< and of the first 50 after it; 0: there is none
  int64_t steps = 0;          ///< that were done under it
  double predicted_before = 0, predicted_after = 0;
  std::map<std::string, double> shares;
  /// Seconds that its steps took less than they would have before it, without the pause.
  double saved_seconds() const { return after_seconds > 0 ? (before_seconds - after_seconds) * double(steps) : 0; }
};

/// A device became slower or faster.
struct SpeedRecord {
  int64_t step = 0;
  std::string device;
  double speed = 0, before = 0;  ///< as parts of what was planned
};

/// Another division was looked for, and none was taken.
struct KeptRecord {
  int64_t step = 0;
  std::string why;
};

/// What was chosen to do about the speeds of devices (lossy balancing).
struct RemedyRecord {
  int64_t step = 0;
  std::string taken;                                                 ///< "nothing", "resize", "shares", "plan"
  double now_seconds = 0, resized_seconds = 0, divided_seconds = 0;  ///< predicted of a step; 0: there is no such
  double work_left_out = 0;                ///< part of the products' work, where columns are left out
  std::map<std::string, double> left_out;  ///< parts of columns by device
};

/// The loss on data that are not trained on.
struct ValidationRecord {
  int64_t step = 0;            ///< after which it was measured
  std::optional<double> loss;  ///< none: it is not finite, or a signal ended the measurement
  bool best = false;           ///< no loss before it was lower
  int64_t batches = 0, samples = 0;
  double seconds = 0;
  std::map<std::string, double> metrics;  ///< those that are finite
};

/// A checkpoint that was written.
struct CheckpointRecord {
  int64_t step = 0;  ///< the last one in it; -1: none was done
  std::string file;
  std::vector<std::string> kept;  ///< further names that it got, as FILE.best
};

struct RunHistory {
  int64_t first_step = 0, steps = 0;
  double seconds = 0;       ///< of all steps, and of what was done between them
  double step_seconds = 0;  ///< the median
  std::vector<SpeedRecord> speeds;
  std::vector<DivisionRecord> divisions;
  std::vector<KeptRecord> kept;
  std::vector<RemedyRecord> remedies;
  int64_t lossy_steps = 0;   ///< in which devices left columns out
  double most_left_out = 0;  ///< of a device's products, in such a step
  std::vector<ValidationRecord> validations;
  std::vector<CheckpointRecord> checkpoints;

  /// The measurement with the lowest loss, of equal ones the first; null: no loss is known.
  const ValidationRecord* best_validation() const;
  /// Seconds that the steps between the changes that were told of and the divisions they led to took longer than under
  /// these: what dividing anew at once would have saved.
  double lost_by_delay() const;
};

/// The runs of a log, in order: one begins where the number of the step falls. Throws UserError naming file and line if
/// it is no step log; half a last line, as a killed run leaves it, is passed over.
std::vector<RunHistory> read_history(const std::string& path);

}  // namespace hetsynth
