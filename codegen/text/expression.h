// Prints bodies as C: the same text serves C++ and CUDA, whose preludes define exp_f32, log_f32, tanh_f32, erf_f32,
// sin_f32, cos_f32, floor_f32, power_f32, max_f32, min_f32, uniform.
#pragma once
#include <functional>
#include <string>

#include "codegen/passes/access.h"
#include "dsl/ir/expr.h"
#include "dsl/ir/type.h"

namespace hetsynth::codegen {

/// A printed expression: what it binds like, and whether it is an integer (conditions are).
struct Printed {
  std::string text;
  enum class Binding : uint8_t { comparison, sum, product, unary } binding = Binding::unary;
  bool integer = false;
};

/// What the leaves of a body become.
struct ExpressionLeaves {
  std::function<Printed(int)> input;
  std::function<std::string(int)> factor;  ///< an integer expression that binds tightly
  std::function<std::string(int)> random;  ///< by stream
  std::string step = "step";
  bool f64 = false;  ///< compute in double with the C library's functions: for single values
  /// Declares a variable with this value and gives its name, for which the word is a wish. If set, parts that occur
  /// more than once are computed once: not to be set where a lookup guards what the expression reads.
  std::function<std::string(const std::string& word, const std::string& value)> declare = {};
};

Printed print(const Expr& expr, const ExpressionLeaves& leaves);

/// The expression as a float (or double); parenthesised if it does not bind tightly and `tight` is set.
std::string real_text(const Printed& printed, bool f64, bool tight = false);

/// "float", "int", "bf16", "fp16": how memory holds an element type; the preludes define the latter two with
/// conversions to and from float.
std::string_view memory_type(DType dtype);
/// "(bf16)" before what memory is to hold as that; empty for other types than those of 16 bits.
std::string conversion_to(DType dtype);
/// "_bf16": what names of functions that multiply such operands end with; empty for float32.
std::string product_suffix(DType operands);

/// "0.5f", "-__builtin_inff()"; in f64 "0.5".
std::string number(double value, bool f64);

/// "b * 49152 + t * 384 + c"; counters by number, the turn of the loop around is "turn". "0" if constant zero.
std::string address_text(const Address& address, const std::vector<std::string>& counters);

/// Where `pointer` and an address, as address_text writes it, lead: "x + (8 - i * 4)". What is taken off is taken off
/// the address: a pointer must not leave its memory, not even on the way.
std::string pointer_text(const std::string& pointer, const std::string& address);

}  // namespace hetsynth::codegen
