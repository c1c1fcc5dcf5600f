#include "dsl/ir/arithmetic.h"

#include <algorithm>
#include <cmath>

#include "dsl/ir/type.h"

namespace hetsynth {

std::optional<double> arithmetic(ExprKind kind, double a, double b) {
  switch (kind) {
    case ExprKind::neg:
      return -a;
    case ExprKind::exp:
      return std::exp(a);
    case ExprKind::log:
      return std::log(a);
    case ExprKind::sqrt:
      return std::sqrt(a);
    case ExprKind::tanh:
      return std::tanh(a);
    case ExprKind::erf:
      return std::erf(a);
    case ExprKind::sin:
      return std::sin(a);
    case ExprKind::cos:
      return std::cos(a);
    case ExprKind::floor:
      return std::floor(a);
    case ExprKind::round_bf16:
      return rounded_to(DType::bf16, a);
    case ExprKind::round_fp16:
      return rounded_to(DType::fp16, a);
    case ExprKind::add:
      return a + b;
    case ExprKind::sub:
      return a - b;
    case ExprKind::mul:
      return a * b;
    case ExprKind::div:
      return a / b;
    case ExprKind::maximum:
      return std::max(a, b);
    case ExprKind::minimum:
      return std::min(a, b);
    case ExprKind::power:
      return std::pow(a, b);
    case ExprKind::less:
      return a < b ? 1 : 0;
    case ExprKind::less_equal:
      return a <= b ? 1 : 0;
    case ExprKind::equal:
      return a == b ? 1 : 0;
    case ExprKind::input:
    case ExprKind::factor:
    case ExprKind::constant:
    case ExprKind::step:
    case ExprKind::random:
    case ExprKind::select:
      return std::nullopt;
  }
  return std::nullopt;
}

bool compares(ExprKind kind) {
  switch (kind) {
    case ExprKind::maximum:
    case ExprKind::minimum:
    case ExprKind::less:
    case ExprKind::less_equal:
    case ExprKind::equal:
      return true;
    default:
      return false;
  }
}

}  // namespace hetsynth
