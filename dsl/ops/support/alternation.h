// Steps of a training in which one group of parameters is trained, where groups take turns.
#pragma once
#include "dsl/ir/expr.h"
#include "dsl/ops/alternation.h"

namespace hetsynth {

/// 1 in the group's steps, else 0.
Expr is_due(const Alternation& of);
/// How many of the group's steps come before this one, which is one of them.
Expr steps_before(const Alternation& of);

/// The number of the step as the optimizer at hand counts: for bias correction, warm-up and schedules.
Expr optimizer_step();

/// While alive, optimizer_step() counts the group's steps alone. One at a time per thread.
class CountedSteps {
 public:
  explicit CountedSteps(const Alternation& of);
  ~CountedSteps();
  CountedSteps(const CountedSteps&) = delete;
  CountedSteps& operator=(const CountedSteps&) = delete;
};

}  // namespace hetsynth
