#include "dsl/ops/support/calculus.h"

#include <cmath>

namespace hetsynth {
namespace {

using Gradient = std::optional<Expr>;

Expr product(const Expr& a, const Expr& b) {
  if (a.is_constant(1)) return b;
  if (b.is_constant(1)) return a;
  return a * b;
}

Gradient plus(const Gradient& a, const Gradient& b) {
  if (!a) return b;
  if (!b) return a;
  return *a + *b;
}

Gradient choose(const Expr& condition, const Gradient& a, const Gradient& b) {
  if (!a && !b) return std::nullopt;
  return select(condition, a.value_or(Expr(0.0)), b.value_or(Expr(0.0)));
}

/// Gradient `da` where a > b, `db` where b > a; both sides share a tie.
Gradient of_larger(const Expr& a, const Expr& b, const Gradient& da, const Gradient& db) {
  if (!da && !db) return std::nullopt;
  Gradient half = product(Expr(0.5), *plus(da, db));
  return choose(less(b, a), da, choose(less(a, b), db, half));
}

}  // namespace

std::optional<Expr> gradient(const Expr& e, int operand, const Expr& seed) {
  if (!mentions_input(e, operand)) return std::nullopt;
  auto by = [&](int i, const Expr& outer) { return gradient(e.arg(i), operand, outer); };
  switch (e.kind()) {
    case ExprKind::input:
      return seed;
    case ExprKind::neg:
      return by(0, -seed);
    case ExprKind::round_bf16:
    case ExprKind::round_fp16:
      return by(0, seed);
    case ExprKind::exp:
      return by(0, product(seed, e));
    case ExprKind::log:
      return by(0, seed / e.arg(0));
    case ExprKind::sqrt:
      return by(0, seed / (2.0 * e));
    case ExprKind::tanh:
      return by(0, product(seed, 1.0 - e * e));
    case ExprKind::erf:
      return by(0, product(seed, 2 / std::sqrt(M_PI) * exp(-(e.arg(0) * e.arg(0)))));
    case ExprKind::sin:
      return by(0, product(seed, cos(e.arg(0))));
    case ExprKind::cos:
      return by(0, product(-seed, sin(e.arg(0))));
    case ExprKind::add:
      return plus(by(0, seed), by(1, seed));
    case ExprKind::sub:
      return plus(by(0, seed), by(1, -seed));
    case ExprKind::mul:
      return plus(by(0, product(seed, e.arg(1))), by(1, product(seed, e.arg(0))));
    case ExprKind::div:
      return plus(by(0, seed / e.arg(1)), by(1, -(product(seed, e) / e.arg(1))));
    case ExprKind::maximum:
      return of_larger(e.arg(0), e.arg(1), by(0, seed), by(1, seed));
    case ExprKind::minimum:
      return of_larger(e.arg(1), e.arg(0), by(0, seed), by(1, seed));
    case ExprKind::power:
      return plus(by(0, product(seed, e.arg(1) * power(e.arg(0), e.arg(1) - 1.0))),
                  by(1, product(seed, e * log(e.arg(0)))));
    case ExprKind::select:
      return choose(e.arg(0), by(1, seed), by(2, seed));
    default:
      return std::nullopt;
  }
}

Expr substitute(const Expr& e, const std::function<std::optional<Expr>(const Expr&)>& replace) {
  if (e.kind() == ExprKind::input || e.kind() == ExprKind::factor) return replace(e).value_or(e);
  if (e.args().empty()) return e;
  std::vector<Expr> args;
  for (const Expr& arg : e.args()) args.push_back(substitute(arg, replace));
  return Expr(e.kind(), std::move(args));
}

}  // namespace hetsynth
