// A cluster of cuda devices in one process, for tests: generated host programs and kernels run on the CPU, one thread
// per rank. Work is queued on two streams and carried out in an adversarial order that the events still allow;
// collectives check that all ranks agree.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codegen/device_program.h"
#include "cuda_emulator.h"
#include "dsl/ir/interpreter.h"

namespace hetsynth::testing_support {

/// Which stream goes ahead when both could.
enum class Eager { compute, communication };

/// One rank's arena as the caller sees it between steps.
class CudaClusterDouble {
 public:
  CudaClusterDouble(const Program& reference, const SpmdProgram& program, std::vector<DeviceProgram> ranks);
  ~CudaClusterDouble();

  /// Writes every rank's part of a leaf's contents.
  void write_leaf(NodeId leaf, const Array& contents);
  /// One step on all ranks. Throws std::runtime_error naming rank and cause if a rank fails or the ranks disagree.
  void step(const EvaluationContext& context, Eager eager = Eager::compute, Turns turns = Turns::forward);
  /// The whole tensor put together from the ranks' parts, which must agree where they overlap.
  Array read_leaf(NodeId leaf) const;
  Array read_output(NodeId node) const;
  double loss() const;
  /// What each rank issued on the communication stream in the last step, in words: "broadcast 128 f32 root 1".
  const std::vector<std::string>& collectives(int rank) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hetsynth::testing_support
