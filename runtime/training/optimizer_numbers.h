// What the log of a run tells of its optimizer: numbers that the program keeps or follows anyway.
#pragma once
#include <cstdint>
#include <optional>

#include "runtime/executor.h"

namespace hetsynth {

struct OptimizerReport {
  std::optional<double> learning_rate = {};   ///< of the step, if the program computes one from the step's number
  std::optional<double> loss_scale = {};      ///< that the step ran with, if it is dynamic
  std::optional<int64_t> skipped_steps = {};  ///< so far, in which gradients overflowed and nothing was updated
  int64_t falls = 0;                          ///< of the scale, in the steps up to this one in a row
  double next_loss_scale = 0;                 ///< if it is dynamic
};

/// The state that scales gradients where a program has one that follows them (DynamicLossScale); -1: it has none.
NodeId dynamic_loss_scale(const Program& program);

/// Follows a run. Of several processes all make and ask theirs alike.
class OptimizerNumbers {
 public:
  /// Before the first step, when parameters and states are set. `executor` outlives this.
  explicit OptimizerNumbers(const Executor& executor);
  /// Whether gradients are scaled by a scale that follows them.
  bool follows_scale() const { return scale_ >= 0; }
  /// After a step.
  OptimizerReport after(int64_t step);

 private:
  double scale() const;

  const Executor& executor_;
  NodeId rate_ = -1, scale_ = -1;
  double scale_before_ = 0;
  int64_t skipped_ = 0, falls_ = 0;
};

}  // namespace hetsynth
