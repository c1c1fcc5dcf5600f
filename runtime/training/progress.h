// What a person sees while training runs: one updating line on a terminal, a line now and then elsewhere.
#pragma once
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "runtime/executor.h"

namespace hetsynth {

/// What one step works through: "tokens" of the first text input, else "samples" of the first input.
struct WorkUnit {
  std::string name = "samples";
  int64_t per_step = 0;
};
WorkUnit work_unit(const Program& program);

struct ProgressOptions {
  bool terminal = false;      ///< update one line in place
  int width = 100;            ///< columns of the terminal
  int64_t every_steps = 0;    ///< not on a terminal: a line each so many steps; 0: about twenty lines in all
  double every_seconds = 10;  ///< and at least one in this time
};

/// Numbers of the line, averaged over the last steps (exponentially, a weight of 0.1 for the newest).
class ProgressState {
 public:
  ProgressState(std::vector<std::string> devices, WorkUnit unit, int64_t last_step);
  void add(const StepReport& report);
  /// From now on steps are those of these devices; averages begin anew if they are others than before.
  void show(const std::vector<std::string>& devices);
  /// "step 120/500  loss 2.3412 (avg 2.3570)  accuracy 0.5312  12.3k tokens/s  idle fast0 3% slow0 12%  left 1m05s";
  /// the metrics of a model are those of its last step.
  std::string line() const;
  double smoothed_loss() const;
  double units_per_second() const;

 private:
  std::string idle_text() const;
  /// "  data 12%" where a rank waits for samples; empty where that is less than 1 %.
  std::string data_text() const;
  /// "  lossy b 48%": what devices leave out of their products.
  std::string left_out_text() const;
  std::vector<std::string> devices_;
  WorkUnit unit_;
  int64_t last_step_;
  int64_t step_ = -1;
  double loss_ = 0;
  std::vector<std::pair<std::string, double>> metrics_;
  // Sums with exponentially falling weights, and the sum of the weights.
  double weight_ = 0, loss_sum_ = 0, seconds_sum_ = 0;
  std::vector<double> idle_sum_;
  double data_sum_ = 0;           ///< of the rank that waits longest for samples
  std::vector<double> left_out_;  ///< part of its products' work that each rank left out in the last step
};

class Progress {
 public:
  Progress(std::ostream& out, const ProgressOptions& options, ProgressState state, int64_t first_step,
           int64_t last_step);
  /// Takes in a step and prints if it is time.
  void add(const StepReport& report);
  void show(const std::vector<std::string>& devices) { state_.show(devices); }
  /// Leaves the terminal's line, so that other text starts on a new one.
  void finish();
  const ProgressState& state() const { return state_; }

 private:
  std::ostream& out_;
  ProgressOptions options_;
  ProgressState state_;
  int64_t first_step_, last_step_;
  double printed_at_ = 0;
  bool line_open_ = false;
};

/// "950", "12.3k", "4.57M": three significant digits.
std::string text_of_rate(double per_second);
/// "8s", "1m05s", "3h07m".
std::string text_of_duration(double seconds);
/// Whether standard output is a terminal, and how wide it is.
ProgressOptions progress_for_standard_output();

}  // namespace hetsynth
