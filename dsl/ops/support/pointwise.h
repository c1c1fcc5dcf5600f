// The family most operators belong to: a body over inputs broadcast against each other, perhaps reduced over some
// dimensions. Space, type and (unless given) gradient follow from the rule.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dsl/ir/operator.h"
#include "dsl/ir/trace.h"

namespace hetsynth {

/// out = reduce over `dims` of body(inputs), the inputs broadcast as NumPy does it to one iteration shape.
struct PointwiseRule {
  std::string tag;
  /// Over Expr::input(j) and Expr::factor(d), which here means the global index along dimension d of the iteration
  /// shape.
  Expr body = 0.0;
  std::vector<int> lift = {};   ///< per input: trailing dimensions it lacks, instead of leading ones; shorter: 0
  std::set<int> integers = {};  ///< inputs of type i32; all others are f32
  std::optional<FactorKind> reduce = {};  ///< sum or max
  std::vector<int> dims = {};             ///< reduced dimensions; negative ones count from the end; empty: all
  std::optional<std::vector<int>> drop =
      {};            ///< reduced dimensions absent from the output; the others stay with extent 1. Not set: all
  Shape shape = {};  ///< the iteration shape is broadcast to at least this
  DType result = DType::f32;  ///< i32: the body gives whole numbers; nothing is reduced and no gradient flows
  CustomVjp vjp = {};         ///< derived from the body if empty; must be given for max
};

/// The operator of a rule. A body that draws random numbers must not be reduced.
std::shared_ptr<const Operator> pointwise_operator(PointwiseRule rule);

/// Appends the operator of a rule to the current trace.
Tensor pointwise(PointwiseRule rule, std::vector<Tensor> inputs,
                 const std::source_location& where = std::source_location::current());

/// One argument, no reduction; `body` over Expr::input(0).
Tensor unary(const std::string& tag, const Operand& x, const Expr& body, CustomVjp vjp = {});

/// Two arguments; a number among them becomes a constant of the body instead of a tensor. `integers`: of whole numbers
/// the body makes whole numbers, so two int32 tensors, or one and a whole number, give an int32 tensor.
using BinaryBody = Expr (*)(const Expr& a, const Expr& b);
enum class OfIntegers : bool { refused, whole };
Tensor binary(const std::string& tag, const Operand& a, const Operand& b, BinaryBody body,
              OfIntegers integers = OfIntegers::refused);

/// For composite functions: whether the operands are int32 tensors and whole numbers (true), or float32 tensors and
/// numbers (false; numbers alone are float32 as well). Throws UserError if they are mixed; the operands are the call's
/// arguments from number `first` (from 0) on.
bool are_integers(const char* tag, const std::vector<Operand>& operands, size_t first = 0);

/// Samples for the property tests.
std::vector<OperatorSample> unary_samples(const std::string& tag, const Expr& body, OperatorSample::Domain domain,
                                          CustomVjp vjp = {});
std::vector<OperatorSample> binary_samples(const std::string& tag, BinaryBody body, OperatorSample::Domain left,
                                           OperatorSample::Domain right);
/// Makes such samples of int32 tensors.
std::vector<OperatorSample> integer_binary_samples(const std::string& tag, BinaryBody body);
/// f32 types of these shapes.
std::vector<TensorType> floats(const std::vector<Shape>& shapes);

}  // namespace hetsynth
