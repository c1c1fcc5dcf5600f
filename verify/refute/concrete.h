// Concrete execution of an SPMD program on n virtual devices in float64: what the plan does, not what it claims. The
// comparison with the reference interpreter finds counterexamples here and serves as the yardstick of other parts'
// tests.
#pragma once
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "dsl/ir/interpreter.h"
#include "dsl/spmd/spmd.h"

namespace hetsynth {

/// The program cannot be carried out on these devices: operands of sizes that do not fit, elements that a device does
/// not hold.
class ExecutionFault : public std::runtime_error {
 public:
  ExecutionFault(std::string text, int instruction, NodeId node)
      : std::runtime_error(std::move(text)), instruction(instruction), node(node) {}
  int instruction;  ///< -1: before the first
  NodeId node;      ///< the tensor that was to be made
};

/// What every device holds after a step.
struct SpmdExecution {
  /// By value, then by rank. Offsets are those that the device believes in: of slices and compute instructions, the
  /// part they made.
  std::vector<std::vector<LocalArray>> values;
  /// Likewise: whether the device holds anything. What lies on another stage has no elements.
  std::vector<std::vector<char>> held;
  bool holds(ValueId value, int rank) const { return held.at(size_t(value)).at(size_t(rank)) != 0; }
};

/// Runs one step. `leaves` holds whole tensors by node. Throws ExecutionFault; expects a program that flaw_of
/// (verify/rules/form.h) finds nothing in.
SpmdExecution execute(const Program& reference, const SpmdProgram& program, const Bindings& leaves,
                      const EvaluationContext& context);

/// The logical tensor that a value stands for by its claimed placements: shards laid together, partial values reduced;
/// of replicas those with the coordinates of rank `replica`. Throws ExecutionFault if the parts do not fit the claim.
Array assemble(const Program& reference, const SpmdProgram& program, const SpmdExecution& execution, ValueId value,
               int replica = 0);

/// Largest relative disagreement between the replicas of a value, over all elements; 0 if its placements name no
/// replicas.
double replica_disagreement(const SpmdProgram& program, const SpmdExecution& execution, ValueId value);

/// One whole training step: the loss, and leaves with the updated parameters and states.
struct StepResult {
  double loss = 0;
  Bindings leaves;
};
StepResult run_spmd_step(const Program& reference, const SpmdProgram& program, const Bindings& leaves,
                         const EvaluationContext& context);
/// The same by the reference interpreter.
StepResult run_reference_step(const Program& reference, const Bindings& leaves, const EvaluationContext& context);

}  // namespace hetsynth
