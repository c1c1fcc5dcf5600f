#include "dsl/ops/support/alternation.h"

#include <optional>

namespace hetsynth {
namespace {

thread_local std::optional<Alternation> counted;  // other threads trace other models

/// Whole periods before this step, and the number of the step in its own.
Expr periods(const Alternation& of) { return floor(Expr::step() / double(of.period)); }
Expr step_in_period(const Alternation& of) { return Expr::step() - double(of.period) * periods(of); }

}  // namespace

Expr is_due(const Alternation& of) {
  const Expr at = step_in_period(of);
  return select(less(at, double(of.first)), 0.0, select(less(at, double(of.first + of.steps)), 1.0, 0.0));
}

Expr steps_before(const Alternation& of) {
  const Expr in_period = step_in_period(of) - double(of.first);
  return double(of.steps) * periods(of) + minimum(maximum(in_period, 0.0), double(of.steps));
}

Expr optimizer_step() { return counted && !counted->always() ? steps_before(*counted) : Expr::step(); }

CountedSteps::CountedSteps(const Alternation& of) { counted = of; }
CountedSteps::~CountedSteps() { counted.reset(); }

}  // namespace hetsynth
