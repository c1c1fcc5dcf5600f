// What tests and the table of models do with each of them: trace it, and train it at its tiny size on ranks of this
// process.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dsl/frontend/model.h"
#include "dsl/spmd/plan.h"
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

/// Losses of the first steps, on a fixed text or synthetic data.
std::vector<double> train_losses(const Program& program, const Plan& plan, const Cluster& cluster, int64_t steps);

/// Largest difference of two runs' losses, relative to the loss.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b);
/// How large it may be. Float32 rounds to 6e-8 of a value, sums are taken in another order, and 20 steps of an
/// optimizer carry differences on: 4e-7 is the most seen over all models but Inception-v3, with 4e-6, whose tiny size
/// normalises over few values layer after layer. A wrong plan is off by 1e-3 and more.
inline constexpr double loss_bound = 2e-5;

}  // namespace hetsynth::testing
