// Stands in for an operator in programs that tests write node by node: a tag for dumps; space and body are given to the
// node directly.
#pragma once
#include <string>
#include <utility>

#include "dsl/ir/operator.h"

namespace hetsynth::testing {

class NamedOperator final : public Operator {
 public:
  explicit NamedOperator(std::string tag) : tag_(std::move(tag)) {}
  std::string_view tag() const override { return tag_; }
  TensorType infer(std::span<const TensorType>) const override { return {}; }
  Space space(std::span<const TensorType>, const TensorType&) const override { return {}; }
  Expr body(std::span<const TensorType>, const TensorType&) const override { return 0.0; }
  std::vector<Tensor> vjp(const VjpArguments&) const override { return {}; }

 private:
  std::string tag_;
};

}  // namespace hetsynth::testing
