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
using ScanBody = std::function<ScanStep(const std::vector<Tensor>& state, Tensor x, int64_t step)>;

/// Calls body(state, x[:, t], t) for t = 0, 1, ... over dimension 1 of x, [batch, time, ...]; each call gets the state
/// that the one before gave. The program holds a copy of the body per step: its tensors are called h[0], h[1], ...
/// after the body's variables, and planning decides once for steps that are alike. Throws UserError if x has no
/// dimension of time, if the state changes its number or shape, if only some steps give an output, or if the body makes
/// a parameter or an input, which would be another one in every step.
ScanResult scan(Operand x, const std::vector<Tensor>& initial, const ScanBody& body);

}  // namespace hetsynth
