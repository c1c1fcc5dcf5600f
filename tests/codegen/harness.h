// Runs generated programs of all ranks of a plan in this process: compiles the text, fills the arenas, starts a thread
// per rank.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codegen/interface/device_program.h"
#include "dsl/ir/interpreter.h"
#include "dsl/jit/native_module.h"

namespace hetsynth::test {

/// `count` equal cpu devices.
Cluster cpu_cluster(int count);
/// cpu devices of these speeds, with 8 GiB each, on one host.
Cluster unequal_cluster(const std::vector<double>& speeds);

/// A mesh of one rank, with every node computed whole, in order.
SpmdProgram whole_program(const Program& reference);

class GeneratedRun {
 public:
  /// Generates and compiles the programs of all ranks. The many small programs of the tests compile faster at a low
  /// level.
  GeneratedRun(const Program& reference, const SpmdProgram& program, int optimization = 1);
  ~GeneratedRun();

  /// Hands each rank its part of a leaf.
  void write(NodeId leaf, const Array& whole);
  /// One step on all ranks. False if a rank reported a failure.
  bool step(const EvaluationContext& context);
  /// A leaf or a named output, put together from the ranks; where several hold an element they must hold the same bits.
  Array read(NodeId node) const;
  double loss() const;
  const DeviceProgram& device(int rank) const { return devices_[rank]; }

 private:
  struct Arena;
  const Program& reference_;
  const SpmdProgram& program_;
  std::vector<DeviceProgram> devices_;
  std::vector<NativeModule> modules_;
  std::vector<std::unique_ptr<Arena>> arenas_;
};

/// Compiles source text as the runtime does. Throws with the compiler's messages.
NativeModule compile(const std::string& text, int optimization = 3);

/// Every element drawn from [low, high], integers for i32.
Array random_array(const TensorType& type, double low, double high, uint64_t seed);

}  // namespace hetsynth::test
