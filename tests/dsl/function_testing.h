// Functions under test that are made of several operators: their values, their gradients against finite differences,
// and the rules checked on every node.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "dsl/ir/interpreter.h"
#include "dsl/ir/trace.h"

namespace hetsynth {

/// A function of leaves of these shapes, and the gradients of the sum of its outputs, each element weighed.
struct Function {
  using Build = std::function<std::vector<Tensor>(const std::vector<Tensor>& leaves)>;
  Function(const std::vector<Shape>& shapes, const Build& build);

  std::vector<Array> run() const { return interpret(program, values, {}); }

  Program program;
  std::vector<NodeId> inputs, outputs, gradients;
  NodeId total = -1;
  Bindings values;
};

/// Gradients against central differences; splits, linearity and types of every node, loops unrolled.
void expect_right_gradients(Function function);

}  // namespace hetsynth
