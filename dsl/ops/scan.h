// A loop over time steps with carried state.
#pragma once
#include <functional>
#include <vector>

#include "hetsynth/tensor.h"

namespace hetsynth {

/// What one step of a scan makes: the state for the next one, and what is kept of this one (perhaps nothing).
struct ScanStep {
  std::vector<Tensor> state;
  Tensor output;
};
/// The state after the last step, and the outputs of all steps with a dimension of time behind the batch: [batch, time,
/// ...].
struct ScanResult {
  std::vector<Tensor> state;
  Tensor outputs;
};
using ScanBody = std::function<ScanStep(const std::vector<Tensor>& state, Tensor x)>;
/// Of several sequences, or of none.
using ScanBodyOfMany = std::function<ScanStep(const std::vector<Tensor>& state, const std::vector<Tensor>& x)>;

/// The loop state = body(state, x[:, t]) over t = 0, 1, ..., dimension 1 of x, [batch, time, ...]. The body is called
/// once, with tensors that stand for those of any step: the program holds it once, whatever the number of steps, and so
/// do its gradient, its plan and its source. Throws UserError if x has no dimension of time, if the state changes its
/// number, shape or type, or if the body makes a parameter or an input (which would be another one in every step),
/// draws random numbers, or contains a scan or a checkpoint.
ScanResult scan(Operand x, const std::vector<Tensor>& initial, const ScanBody& body);
/// The same over several sequences at once. Throws UserError if they have different numbers of steps.
ScanResult scan(const std::vector<Operand>& x, const std::vector<Tensor>& initial, const ScanBodyOfMany& body);
/// So many steps, over no sequence. Throws UserError unless there is at least one.
ScanResult scan_steps(int64_t steps, const std::vector<Tensor>& initial, const ScanBodyOfMany& body,
                      std::source_location where = std::source_location::current());

}  // namespace hetsynth
