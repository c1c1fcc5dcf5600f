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
};

/// Follows a run. Of several processes all make and ask theirs alike.
class OptimizerNumbers {
 public:
  /// Before the first step, when parameters and states are set. `executor` outlives this.
  explicit OptimizerNumbers(const Executor& executor);
  /// After a step.
  OptimizerReport after(int64_t step);

 private:
  double scale() const;

  const Executor& executor_;
  NodeId rate_ = -1, scale_ = -1;
  double scale_before_ = 0;
  int64_t skipped_ = 0;
};

}  // namespace hetsynth
