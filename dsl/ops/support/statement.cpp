#include "dsl/ops/support/statement.h"

#include <fmt/format.h>

#include "dsl/base/error.h"

namespace hetsynth {
namespace {

class StatedOperator final : public Operator {
 public:
  StatedOperator(std::string tag, Shape output, Space space, Expr body)
      : tag_(std::move(tag)), output_(std::move(output)), space_(std::move(space)), body_(std::move(body)) {}
  std::string_view tag() const override { return tag_; }
  std::string attributes() const override { return text(body_) + " " + text(space_); }
  TensorType infer(std::span<const TensorType>) const override { return {output_, DType::f32}; }
  Space space(std::span<const TensorType>, const TensorType&) const override { return space_; }
  Expr body(std::span<const TensorType>, const TensorType&) const override { return body_; }
  std::vector<Tensor> vjp(const VjpArguments&) const override {
    internal_failure("a custom gradient", tag_ + " is a part of a composite that has one", __FILE__, __LINE__);
  }

 private:
  std::string tag_;
  Shape output_;
  Space space_;
  Expr body_;
};

}  // namespace

Statement::Statement(std::string tag, Shape output) : tag_(std::move(tag)), output_(std::move(output)) {
  for (size_t d = 0; d < output_.size(); ++d) {
    factors_.push_back(output_[d] == 1 ? -1
                                       : space_.add_factor(fmt::format("i{}", d), output_[d], FactorKind::parallel));
    space_.output.dims.push_back(dim(static_cast<int>(d)));
  }
}

DimIndex Statement::dim(int d) const {
  const int factor = factors_.at(static_cast<size_t>(d));
  return factor < 0 ? DimIndex{} : index_by(factor);
}

Expr Statement::index(int d) const {
  const int factor = factors_.at(static_cast<size_t>(d));
  return factor < 0 ? Expr(0.0) : Expr::factor(factor);
}

Expr Statement::read(Tensor tensor, std::vector<DimIndex> indices) {
  HETSYNTH_CHECK(indices.size() == tensor.shape().size(), "an index for every dimension");
  Access access;
  access.dims = std::move(indices);
  // The same element once is enough.
  for (size_t j = 0; j < inputs_.size(); ++j) {
    if (inputs_[j].node() == tensor.node() && space_.inputs[j] == access) return Expr::input(static_cast<int>(j));
  }
  inputs_.push_back(tensor);
  space_.inputs.push_back(std::move(access));
  return Expr::input(static_cast<int>(inputs_.size()) - 1);
}

Tensor Statement::emit(const Expr& body) {
  return hetsynth::emit(std::make_shared<StatedOperator>(tag_, output_, space_, body), inputs_);
}

Expr logistic(const Expr& x) { return 1.0 / (1.0 + exp(-x)); }

}  // namespace hetsynth
