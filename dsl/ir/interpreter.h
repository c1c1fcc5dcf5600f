// The reference interpreter: executes a program, or one operator on a part of its space, in float64, from space and
// body alone.
#pragma once
#include <map>
#include <vector>

#include "dsl/ir/program.h"

namespace hetsynth {

/// A dense row-major tensor of doubles.
struct Array {
  Shape shape;
  std::vector<double> values;
  Array() = default;
  explicit Array(Shape shape, double fill = 0);
};

/// An operand as a device holds it: elements [offset, offset + extent) per dimension of the logical tensor.
struct LocalArray {
  Array array;
  std::vector<int64_t> offset;  ///< global index of local element 0, per dimension
};

/// What random bodies and step-dependent bodies read.
struct EvaluationContext {
  uint64_t seed = 0;
  int64_t step = 0;
  bool rounds = true;  ///< to bf16 or fp16 where the program says so; otherwise as over the reals
};

/// The part of `out` that the given ranges of the factors compute. Ranges of reduced factors may be partial: the result
/// is then a partial sum or maximum. `output_shape` is the logical shape (for random draws). Reading an element that an
/// operand does not hold throws InternalError.
LocalArray evaluate(const Space& space, const Expr& body, const std::vector<LocalArray>& inputs,
                    const std::vector<Range>& ranges, const Shape& output_shape, const EvaluationContext& context);

/// The full ranges of a space.
std::vector<Range> full_ranges(const Space& space);

/// Values by node.
using Bindings = std::map<NodeId, Array>;

/// Writes a part of a tensor, which lies at its offset, into the whole.
void put_part(const LocalArray& part, Array& whole);

/// Every node's value given all leaves; of nodes of a loop, that of the last turn.
std::vector<Array> interpret(const Program& program, const Bindings& leaves, const EvaluationContext& context);

/// Starting value of one element of a parameter or state, by its GLOBAL row-major index; exactly a float32. The same on
/// every plan and backend.
double initial_value(const Node& leaf, uint64_t seed, int64_t index);

/// Starting values of parameters and states.
Bindings initial_values(const Program& program, uint64_t seed);

/// Uniform in [0,1) with 24 bits: Philox 4x32-10, key from (seed, stream), counter from (index, step). The same bits on
/// every backend.
double philox_uniform(uint64_t seed, int stream, uint64_t index, uint64_t step);

}  // namespace hetsynth
