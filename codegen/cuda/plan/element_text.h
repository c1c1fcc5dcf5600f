// CUDA C++ text of one element: bodies, given the text of every factor's counter and of every operand.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "codegen/passes/local.h"
#include "codegen/text/expression.h"

namespace hetsynth::codegen::cuda {

/// Types of memory and arithmetic in the generated kernels; memory may hold narrower numbers than arithmetic uses.
struct ElementTypes {
  std::string memory_real = "float";  ///< element of an f32 tensor in device memory
  std::string real = "float";         ///< of arithmetic and accumulation
  std::string memory_text(DType dtype) const {
    return dtype == DType::f32 ? memory_real : std::string(memory_type(dtype));
  }
  /// A value as memory holds it: numbers of 16 bits do not come about by themselves.
  std::string stored_text(DType dtype, const std::string& value) const {
    return is_half(dtype) ? conversion_to(dtype) + value : value;
  }
  std::string value_text(DType dtype) const { return dtype == DType::i32 ? "int" : real; }
};

/// What surrounds an element: how to name counters and operands.
struct ElementScope {
  std::vector<std::string> counters;  ///< per factor: its index from the beginning of the local range
  std::function<std::string(int input)> operand;
  std::vector<bool> integer;    ///< per input
  std::string global_position;  ///< of the output element in the whole tensor, where the body draws random numbers
  /// As in ExpressionLeaves.
  std::function<std::string(const std::string& word, const std::string& value)> declare = {};
};

/// The body as a real. What depends on the step alone is computed in double: 1 - power(0.999, t) would lose its digits
/// in float.
std::string body_text(const LocalOp& op, const Expr& body, const ElementScope& scope);
/// The body of an operator with an integer result.
std::string integer_body_text(const LocalOp& op, const Expr& body, const ElementScope& scope);

/// Row-major position of the output element in the WHOLE tensor: what Philox counts by.
std::string global_position_text(const LocalOp& op, const Shape& shape, const std::vector<std::string>& counters);

/// Condition under which an access that gives 0 outside stays inside of what the device holds; empty if it always does.
std::string inside_text(const LocalOp& op, const Access& access, const std::vector<Range>& held,
                        const std::vector<std::string>& counters);

}  // namespace hetsynth::codegen::cuda
