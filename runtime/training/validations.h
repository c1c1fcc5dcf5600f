// The loss on data that a model is not trained on, followed while it trains.
#pragma once
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "runtime/training/evaluate.h"

namespace hetsynth {

struct ValidationOptions {
  /// Measures the loss with the parameters as they are; empty: nothing is measured. Of several processes all call it
  /// alike and get the same.
  std::function<Evaluation()> evaluate;
  int64_t every = 0;       ///< it is measured after each so many steps, and at the end; 0: at the end only
  int64_t stop_after = 0;  ///< training ends after so many measurements in a row that were no gain; 0: it does not
  double best_before = std::numeric_limits<double>::infinity();  ///< lowest loss of the run before it was continued
};

/// What was measured after a step; -1: before the first.
struct MeasuredLoss {
  int64_t step = 0;
  Evaluation found;
  bool is_best = false;
};

/// {"step":199,"event":"validation","validation_loss":1.93,"batches":64,...}: a record of the step log.
std::string validation_record(const MeasuredLoss& measured);

class Validations {
 public:
  explicit Validations(ValidationOptions options) : options_(std::move(options)), best_(options_.best_before) {}

  bool measures() const { return bool(options_.evaluate); }
  /// Whether the loss is measured after this step though training goes on.
  bool is_due(int64_t step) const { return measures() && options_.every > 0 && (step + 1) % options_.every == 0; }
  /// Measures it after `step`. A loss that is not finite is no gain.
  void measure(int64_t step);

  /// "validation after 200 steps: loss 1.9312, the lowest so far (64 batches in 3.2 s)", of the last measurement.
  std::string line() const;
  /// The same in full.
  MeasuredLoss measured() const { return {*step_, last_, is_best()}; }

  /// Whether the loss was measured last after this step: -1 before the first.
  bool measured_after(int64_t step) const { return step_ == step; }
  /// What was measured then; none if a signal ended that early.
  std::optional<double> loss() const;
  bool is_best() const { return without_gain_ == 0 && loss().has_value(); }
  double best() const { return best_; }
  /// Whether training is to end for want of a gain.
  bool give_up() const { return options_.stop_after > 0 && without_gain_ >= options_.stop_after; }

 private:
  ValidationOptions options_;
  double best_;
  int64_t without_gain_ = 0;
  std::optional<int64_t> step_;  ///< after which the loss was measured last
  Evaluation last_;
};

}  // namespace hetsynth
