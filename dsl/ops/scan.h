// A loop over time steps with carried state.
#pragma once
#include <functional>
#include <source_location>
#include <type_traits>
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

/// What is done in a step: a function of the state and of what the sequence holds at that step, a tensor, or, of
/// several sequences or none, of what all of them hold there, a vector of tensors.
class ScanBody {
 public:
  template <class Body>
  requires(!std::is_base_of_v<ScanBody, std::remove_cvref_t<Body>>) ScanBody(Body&& body) {  // NOLINT: a lambda is one
    if constexpr (takes<Body, Tensor>)
      of_one_ = body;
    else
      take_many(body);
  }
  /// `where`: for the error of a body of one sequence that is given several, or none.
  ScanStep operator()(const std::vector<Tensor>& state, const std::vector<Tensor>& x,
                      const std::source_location& where) const;

 protected:
  using Tensors = const std::vector<Tensor>&;
  template <class Body, class X>
  static constexpr bool takes = std::is_invocable_r_v<ScanStep, Body&, Tensors, X>;

  ScanBody() = default;
  template <class Body>
  void take_many(Body& body) {
    static_assert(takes<Body, Tensors>,
                  "the body of a scan takes (const std::vector<Tensor>& state, Tensor x), or, of several sequences or "
                  "none, (const std::vector<Tensor>& state, const std::vector<Tensor>& x), and returns a ScanStep");
    if constexpr (takes<Body, Tensors>) of_many_ = body;
  }

  std::function<ScanStep(Tensors, Tensor)> of_one_;
  std::function<ScanStep(Tensors, Tensors)> of_many_;
};
/// This is the same where several sequences or none are meant: a body that could take either is given the vector.
class ScanBodyOfMany : public ScanBody {
 public:
  ScanBodyOfMany(const ScanBody& body) : ScanBody(body) {}  // NOLINT: it is one
  template <class Body>
  requires(!std::is_base_of_v<ScanBody, std::remove_cvref_t<Body>>)
      ScanBodyOfMany(Body&& body) {  // NOLINT: a lambda is one
    take_many(body);
  }
};

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
