#include "codegen/cuda/plan/element_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace hetsynth::codegen::cuda {
namespace {

bool step_only(const Expr& e) {
  return !mentions(e, ExprKind::input) && !mentions(e, ExprKind::factor) && !mentions(e, ExprKind::random);
}

class BodyPrinter {
 public:
  BodyPrinter(const LocalOp& op, const ElementScope& scope) : scope_(scope) {
    leaves_.input = [this](int input) { return read(input); };
    leaves_.factor = [&op, &scope](int factor) {
      int64_t start = op.ranges[factor].lo;
      return start == 0 ? scope.counters[factor] : fmt::format("({} + {})", scope.counters[factor], start);
    };
    leaves_.random = [&scope](int stream) {
      return fmt::format("philox_uniform(seed, {}, {}, step)", stream, scope.global_position);
    };
  }

  Printed print(const Expr& body) {
    leaves_.declare = scope_.declare;
    return codegen::print(with_step_in_double(body), leaves_);
  }

 private:
  /// Every largest part that depends on the step alone becomes a further input.
  Expr with_step_in_double(const Expr& e) {
    if (!mentions(e, ExprKind::step) || e.kind() == ExprKind::step) return e;
    if (step_only(e)) {
      ExpressionLeaves leaves;
      leaves.f64 = true;
      std::string text = "(float)(" + real_text(codegen::print(e, leaves), true) + ")";
      size_t at = size_t(std::find(texts_.begin(), texts_.end(), text) - texts_.begin());
      if (at == texts_.size()) texts_.push_back(text);
      return Expr::input(first_text + int(at));
    }
    std::vector<Expr> args;
    for (const Expr& arg : e.args()) args.push_back(with_step_in_double(arg));
    return Expr(e.kind(), std::move(args));
  }

  Printed read(int input) const {
    if (input >= first_text) return {texts_[size_t(input - first_text)], Printed::Binding::unary, false};
    return {scope_.operand(input), Printed::Binding::unary, scope_.integer[size_t(input)]};
  }

  static constexpr int first_text = 1 << 20;
  const ElementScope& scope_;
  ExpressionLeaves leaves_;
  std::vector<std::string> texts_;
};

}  // namespace

std::string body_text(const LocalOp& op, const Expr& body, const ElementScope& scope) {
  return real_text(BodyPrinter(op, scope).print(body), false);
}

std::string integer_body_text(const LocalOp& op, const Expr& body, const ElementScope& scope) {
  Printed printed = BodyPrinter(op, scope).print(body);
  return printed.integer ? printed.text : fmt::format("(int)({})", printed.text);
}

std::string global_position_text(const LocalOp& op, const Shape& shape, const std::vector<std::string>& counters) {
  return address_text(draw_number(op, shape), counters);
}

std::string inside_text(const LocalOp& op, const Access& access, const std::vector<Range>& held,
                        const std::vector<std::string>& counters) {
  std::string text;
  for (size_t d = 0; d < access.dims.size(); ++d) {
    Bounds reach = bounds(access.dims[d], op.ranges);
    std::string index = address_text(address(access.dims[d], op.ranges), counters);
    auto require = [&](const std::string& condition) { text += (text.empty() ? "" : " && ") + condition; };
    if (reach.lo < held[d].lo) require(fmt::format("{} >= {}", index, held[d].lo));
    if (reach.hi >= held[d].hi) require(fmt::format("{} < {}", index, held[d].hi));
  }
  return text;
}

}  // namespace hetsynth::codegen::cuda
