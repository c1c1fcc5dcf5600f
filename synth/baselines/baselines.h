// Plans that people would write by hand: one device, and data parallelism. Real plans, priced by the same cost model.
#pragma once
#include "synth/baselines/baseline_plans.h"
#include "synth/network/search.h"
#include "synth/schedule/lower.h"
#include "synth/schedule/schedule.h"

namespace hetsynth::synth {

/// Fraction of the work under a rule, by mesh axis and coordinate: even, or inverse to the time a device would need for
/// the whole step, on average over the devices of the coordinate.
std::vector<std::vector<double>> fractions_of(const Problem& problem, RatioRule rule);

/// The class of dimension 0 of the first input that can be cut there; -1 if there is none.
int batch_class(const Problem& problem);

/// Parameters and states replicated, everything computed by its share of the batch as far as the operators allow,
/// partial results reduced where an operator needs them.
Choices data_parallel_choices(const Problem& problem);

/// Everything whole, computed by every device.
Choices replicated_choices(const Problem& problem);

/// Holds operators to splits other than the batch's, and matrix products with parameters to some split.
Pins tensor_parallel_pins(const Problem& problem);

/// A problem at the shares that a rule gives.
struct AtShares {
  AtShares(const Problem& problem, RatioRule rule);
  AtShares(const Problem& problem, std::vector<std::vector<double>> fractions, Shares shares);
  /// The cheapest choices under the pins; none if they contradict.
  Choices cheapest(const Pins& pins) const;
  /// The choices as a program, as `plan` has it.
  SpmdProgram program(const Choices& choices, Wording wording = Wording::full) const;
  /// The choices as a plan. Throws UserError with ExitCode::infeasible, calling it `name`, if it does not fit.
  Plan plan(const Choices& choices, const std::string& name) const;
  /// Of that plan.
  double step_seconds(const Choices& choices, const std::string& name) const;

  const Problem& problem;
  std::vector<std::vector<double>> fractions;
  Shares shares;
  Conversions conversions;
};

/// The finished plan: program, prediction (without bound and baselines). Memory is not checked.
Plan assemble(const Problem& problem, const Conversions& conversions, const Shares& shares, const Choices& choices,
              const std::vector<std::vector<double>>& fractions);

/// The same of a program at hand.
Plan assemble(const Problem& problem, const Shares& shares, SpmdProgram program,
              const std::vector<std::vector<double>>& fractions);

/// Even and speed-proportional data parallelism over all devices, and the fastest device alone, as the cost model sees
/// them.
std::vector<BaselinePrediction> baselines(const Problem& problem);

/// As the functions of baseline_plans.h, for a problem at hand.
Plan single_device_plan(const Problem& problem);
Plan data_parallel_plan(const Problem& problem, RatioRule rule);
Plan tensor_parallel_plan(const Problem& problem, RatioRule rule);

}  // namespace hetsynth::synth
