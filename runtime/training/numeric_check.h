// One training step of generated code on all ranks, held against the reference interpreter in float64: the same seed,
// the same data. What the proof leaves out is looked at here: rounding, the order of additions, kernels, libraries.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/executor.h"

namespace hetsynth {

/// One tensor after the step.
struct TensorError {
  std::string name;                               ///< "loss", of a parameter or state, or of an output
  double largest = 0;                             ///< the largest magnitude of an element, by the reference
  double error = 0;                               ///< largest absolute difference of an element
  double bound = 0;                               ///< of that, by rounding alone (rounding_noise)
  int64_t longest_sum = 0;                        ///< terms of the longest sum on the way to the tensor
  bool finite = true;                             ///< each element, by the reference; others are to be the same in both
  bool agrees() const { return error <= bound; }  ///< false for NaN
};

struct NumericCheck {
  std::vector<TensorError> tensors;  ///< loss, parameters and states after the step, outputs
  double seconds = 0;
  bool agrees() const;
  /// The tensor whose error is the largest part of its bound; nullptr if there are none.
  const TensorError* worst() const;
};

/// Seconds that the reference interpreter needs, roughly.
double numeric_check_seconds(const Program& reference);

/// Runs step `step` on freshly initialised ranks and beside it the interpreter.
///
/// The bound of a tensor: a sum of n terms in a format of unit roundoff u errs by at most about 2 sqrt(n) u sum|terms|
/// with a probability close to one (Higham and Mary, A new approach to probabilistic rounding error analysis, 2019),
/// an operation by u times its result. The step is executed in float64 a few more times with every element of every
/// tensor moved at random by up to that much (Monte Carlo arithmetic: Parker, 1997), which carries errors on as the
/// program does, through cancellation and division by small numbers. The bound is `margin` times the largest movement
/// of an element of the tensor that is seen.
NumericCheck check_numerically(Executor& executor, const BatchSource& data, int64_t step = 0);

}  // namespace hetsynth
