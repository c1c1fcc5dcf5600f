// What tests and the table of models do with each of them: trace it, and train it at its tiny size on ranks of this
// process.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dsl/frontend/model.h"
#include "dsl/spmd/plan.h"
#include "synth/planner/synthesize.h"
#include "tests/support/zoo/model_list.h"

namespace hetsynth::testing {

struct TracedModel {
  double load_seconds = 0;   ///< from the file to code in memory
  double trace_seconds = 0;  ///< trace and differentiate together
  std::shared_ptr<LoadedModel> code;
  Program program;  ///< the training step
};

TracedModel trace_model(const ListedModel& model, const Settings& settings);

/// One device of this machine, and three whose planned shares are uneven: speeds as 3 to 1 to 2 on paper, none of them
/// slowed down.
Cluster one_device();
Cluster three_uneven_devices();

/// Gives each device so many hundredths of the memory that the fastest plan takes of it, and `spare` bytes more, and
/// returns the plan that fits then; nothing if there is none.
std::optional<Plan> plan_in_part_of_memory(const Program& program, const SynthesisOptions& options, int64_t hundredths,
                                           int64_t spare, Cluster* devices);

/// Ranks that stand for all: the first of each kind for which the same memory is planned and there.
std::vector<int> ranks_that_differ(const Plan& plan);

/// Losses of the first steps on one rank and on those of a plan, on a fixed text or synthetic data.
struct TwoRuns {
  std::vector<double> alone, together;
  /// Every step of the second run begins with what the first one made of parameters and states.
  bool from_same_state = false;
  /// Largest difference of the losses of a step, relative to the loss.
  double largest_difference() const;
};
/// Models that normalise over batches are run step by step from the same state: over the dozen values of a tiny channel
/// that multiplies rounding with every layer and step, until any two orders of summation part
/// (tests/zoo/rounding_test.cpp shows that it is rounding). All others run freely.
TwoRuns train_on_both(const Program& program, const Plan& plan, const Cluster& cluster, int64_t steps);
/// How large the difference may be. Float32 rounds to 6e-8 of a value, sums are taken in another order, and 20 steps of
/// an optimizer carry differences on: 4e-7 is the most seen over all models but Inception-v3, with 2e-6. A wrong plan
/// is off by 1e-3 and more.
inline constexpr double loss_bound = 2e-5;

}  // namespace hetsynth::testing
