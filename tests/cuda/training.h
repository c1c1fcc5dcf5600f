// Models trained through launch on machines of doubles, and the float64 losses they are held against.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dsl/spmd/plan.h"
#include "runtime/data/batch_source.h"
#include "tests/support/cuda/cuda_doubles.h"
#include "tests/support/zoo/model_list.h"

namespace hetsynth::testing {

/// A model's training step at a size that the interpreter and the doubles run in seconds.
struct SmallModel {
  std::string name, file;
  Settings settings;
  /// Of the loss, relative to 1 + loss. Float32 rounds sums over some hundred terms of order 1, and the steps of an
  /// optimizer carry differences on.
  double bound = 2e-5;
  bool traced = true;  ///< see MachineOptions::traces_kernels
};
const std::vector<SmallModel>& small_models();
void PrintTo(const SmallModel& model, std::ostream* out);

/// Traced once per process.
const Program& program_of(const SmallModel& model);
/// What it is trained on: a text in a file for models that read one, else made-up samples.
std::unique_ptr<BatchSource> data_of(const Program& program);
/// Losses of the first `small_steps` steps in float64, computed once per process.
const std::vector<double>& float64_losses(const SmallModel& model);
constexpr int small_steps = 3;  // issued, recorded, replayed
constexpr uint64_t small_seed = 5;

/// Relative speeds by device; cuda devices, but for those listed in `cpus`.
Cluster devices(const std::vector<double>& speeds, const std::vector<int>& cpus = {});

struct Trained {
  std::vector<double> losses;
  std::string left_behind;                            ///< what the devices did not give back
  std::vector<std::vector<std::string>> collectives;  ///< by GPU
};
/// Trains `small_steps` steps. `options.gpus` is set from the cluster. `in_turns`: what the plan is of, if that is not
/// the model's program.
Trained train_on_doubles(const SmallModel& model, const Plan& plan, const Cluster& cluster,
                         testing_support::MachineOptions options = {}, const Program* in_turns = nullptr);

/// The same in several processes, which are threads on one machine of doubles.
struct TrainedProcesses {
  std::vector<std::vector<double>> losses;  ///< by process
  std::vector<std::string> thrown;          ///< by process; "" where all went well
  std::string left_behind;
};
TrainedProcesses train_in_processes(const SmallModel& model, const Plan& plan, const Cluster& cluster, int processes,
                                    testing_support::MachineOptions options = {});

}  // namespace hetsynth::testing
