// One step of reverse-mode differentiation, shared by the sweep over a program (gradients.cpp) and over a loop's body
// (loop_gradient.cpp).
#pragma once
#include <vector>

#include "dsl/ir/trace.h"

namespace hetsynth {

/// While alive, nodes are named and placed after the forward node whose gradient they belong to.
class BackwardOf {
 public:
  BackwardOf(Trace& trace, NodeId node) : trace_(trace), saved_node_(trace.backward_of), saved_scope_(trace.scope) {
    trace.backward_of = node;
    trace.scope = trace.program[node].where;
  }
  ~BackwardOf() {
    trace_.backward_of = saved_node_;
    trace_.scope = saved_scope_;
  }
  BackwardOf(const BackwardOf&) = delete;
  BackwardOf& operator=(const BackwardOf&) = delete;

 private:
  Trace& trace_;
  NodeId saved_node_;
  SourceLocation saved_scope_;
};

struct Contribution {
  NodeId of;
  Tensor gradient;
};

/// What a node whose result has this gradient contributes to the gradients of its inputs, or of those that its custom
/// gradient speaks of, as far as `depends` asks for them. Contributions are named after what they are gradients of.
std::vector<Contribution> contributions(Trace& trace, NodeId node, Tensor gradient, const std::vector<bool>& depends);

/// Adds a contribution to the gradient of `of`, which may not be defined yet. The sum takes its name; contributions
/// made for it become its parts.
Tensor add_contribution(Trace& trace, Tensor so_far, Tensor contribution, NodeId of);

/// "d_w1": a gradient is called after what it is the gradient of.
void name_gradient(Program& program, Tensor gradient, NodeId of, const char* suffix = "");

}  // namespace hetsynth
