// A program on a machine of doubles, through the runtime's own launch: what tests of generated programs drive.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codegen/interface/device_program.h"
#include "dsl/ir/interpreter.h"
#include "runtime/executor.h"
#include "tests/support/cuda/cuda_doubles.h"

namespace hetsynth::testing_support {

/// As many GPUs as the cluster has cuda devices.
MachineOptions machine_for(const Cluster& cluster);

/// Memory of all ranks but inputs, parameters and states is poisoned before each step.
class CudaCluster {
 public:
  /// `programs`: what was generated, perhaps changed by a test; empty: generate now.
  CudaCluster(const Program& reference, const SpmdProgram& program, const Cluster& cluster,
              std::vector<DeviceProgram> programs = {}, uint64_t seed = 0);
  CudaCluster(const Program& reference, const SpmdProgram& program, const Cluster& cluster, MachineOptions options,
              std::vector<DeviceProgram> programs = {}, uint64_t seed = 0);
  ~CudaCluster();

  /// A leaf's contents: at once, or for an input of all steps to come.
  void write_leaf(NodeId leaf, const Array& contents);
  /// One step on all ranks. Throws what the executor throws.
  void step(int64_t step, Eager eager = Eager::compute, Turns turns = Turns::forward);
  double loss() const { return loss_; }
  /// The whole tensor put together from the ranks' parts. Throws std::runtime_error where GPUs hold different values.
  Array read(NodeId node) const;
  std::vector<std::string> take_collectives(int gpu) { return machine_->take_collectives(gpu); }
  CudaDoubles& machine() { return *machine_; }
  Executor& executor() { return *executor_; }
  /// Ends all ranks; what they did not give back, in words.
  std::string leave();

 private:
  class Inputs;
  void require_equal_copies(NodeId node) const;
  const Program& reference_;
  std::vector<DeviceProgram> programs_;
  std::vector<int> gpu_of_;  ///< by rank; -1: cpu
  std::unique_ptr<CudaDoubles> machine_;
  std::unique_ptr<Inputs> inputs_;
  std::unique_ptr<Executor> executor_;
  double loss_ = 0;
};

}  // namespace hetsynth::testing_support
