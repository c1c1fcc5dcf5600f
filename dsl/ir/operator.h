// The operator contract. One operator is one file pair in dsl/ops and one name in dsl/ops/CMakeLists.txt.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/include/hetsynth/tensor.h"
#include "dsl/ir/expr.h"
#include "dsl/ir/space.h"
#include "dsl/ir/type.h"

namespace hetsynth {

/// What a gradient may refer to: the operator's inputs, its result, and the gradient of the loss by that result.
struct VjpArguments {
  std::vector<Tensor> inputs;
  Tensor output;
  Tensor output_gradient;
};

/// A primitive operator: immutable, one output. Everything not answered here is derived from space and body.
class Operator {
 public:
  virtual ~Operator() = default;
  /// Name in messages, dumps and plans: "einsum".
  virtual std::string_view tag() const = 0;
  /// Constants that tell two operators of one tag apart, as stable text: "bmk,kn->bmn".
  virtual std::string attributes() const { return ""; }
  /// Output type. Throws UserError with tag, expected, found and mend if the inputs do not fit.
  virtual TensorType infer(std::span<const TensorType> inputs) const = 0;
  /// Iteration space for inputs that `infer` accepted.
  virtual Space space(std::span<const TensorType> inputs, const TensorType& output) const = 0;
  /// Meaning of one element, over the space's factors and inputs.
  virtual Expr body(std::span<const TensorType> inputs, const TensorType& output) const = 0;
  /// Gradients by each input, emitted as other operators; an empty Tensor where the input gets none (integers,
  /// conditions).
  virtual std::vector<Tensor> vjp(const VjpArguments& arguments) const = 0;
};

/// A ready instance for the property tests: the operator and types it accepts, with what values its inputs may take.
struct OperatorSample {
  std::shared_ptr<const Operator> op;
  std::vector<TensorType> inputs;
  /// Per input: values are drawn from [low, high] (integers for i32). Shorter than inputs: [-2, 2].
  struct Domain {
    double low = -2;
    double high = 2;
  };
  std::vector<Domain> domains;
};

/// One entry of the operator list; each file pair defines `OperatorInfo <name>_info()`.
struct OperatorInfo {
  std::string name;
  std::string summary;
  /// Small samples, sizes pairwise different where the operator allows; empty for composite functions built from
  /// others.
  std::vector<OperatorSample> samples;
};

/// All entries of the list, in its order.
const std::vector<OperatorInfo>& operator_list();

}  // namespace hetsynth
