#include "dsl/ir/expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "dsl/ir/arithmetic.h"

namespace hetsynth {
namespace {

/// Returns a number that float32 reaches as it is, and for one beyond the largest or below the smallest the float32
/// next to it, which is infinite or zero: what devices would make of it.
double within_float(double value) {
  const float single = float(value);
  const bool reached = std::abs(value) <= double(std::numeric_limits<float>::max()) && (single != 0 || value == 0);
  return reached ? value : double(single);
}

/// The float32 next to a number. Integers, which may be compared with integers, stay.
Expr as_float(const Expr& e) {
  if (e.kind() != ExprKind::constant || std::round(e.value()) == e.value()) return e;
  return Expr(double(float(e.value())));
}

std::vector<Expr> as_compared(ExprKind kind, std::vector<Expr> args) {
  if (compares(kind))
    for (Expr& arg : args) arg = as_float(arg);
  return args;
}

}  // namespace

Expr::Expr(ExprNode node) : node_(std::make_shared<const ExprNode>(std::move(node))) {}
Expr::Expr(double value) : Expr(ExprNode{ExprKind::constant, 0, within_float(value), {}}) {}
Expr::Expr(ExprKind kind, std::vector<Expr> args) : Expr(ExprNode{kind, 0, 0, as_compared(kind, std::move(args))}) {}
Expr Expr::input(int operand) { return Expr(ExprNode{ExprKind::input, operand, 0, {}}); }
Expr Expr::factor(int factor) { return Expr(ExprNode{ExprKind::factor, factor, 0, {}}); }
Expr Expr::step() { return Expr(ExprNode{ExprKind::step, 0, 0, {}}); }
Expr Expr::random(int stream) { return Expr(ExprNode{ExprKind::random, stream, 0, {}}); }

bool Expr::operator==(const Expr& other) const {
  if (node_ == other.node_) return true;
  return kind() == other.kind() && index() == other.index() && value() == other.value() && args() == other.args();
}

Expr operator+(const Expr& a, const Expr& b) { return Expr(ExprKind::add, {a, b}); }
Expr operator-(const Expr& a, const Expr& b) { return Expr(ExprKind::sub, {a, b}); }
Expr operator*(const Expr& a, const Expr& b) { return Expr(ExprKind::mul, {a, b}); }
Expr operator/(const Expr& a, const Expr& b) { return Expr(ExprKind::div, {a, b}); }
Expr operator-(const Expr& a) { return Expr(ExprKind::neg, {a}); }
Expr exp(const Expr& a) { return Expr(ExprKind::exp, {a}); }
Expr log(const Expr& a) { return Expr(ExprKind::log, {a}); }
Expr sqrt(const Expr& a) { return Expr(ExprKind::sqrt, {a}); }
Expr tanh(const Expr& a) { return Expr(ExprKind::tanh, {a}); }
Expr erf(const Expr& a) { return Expr(ExprKind::erf, {a}); }
Expr sin(const Expr& a) { return Expr(ExprKind::sin, {a}); }
Expr cos(const Expr& a) { return Expr(ExprKind::cos, {a}); }
Expr floor(const Expr& a) { return Expr(ExprKind::floor, {a}); }
Expr round_to(DType half, const Expr& a) {
  return Expr(half == DType::bf16 ? ExprKind::round_bf16 : ExprKind::round_fp16, {a});
}
Expr maximum(const Expr& a, const Expr& b) { return Expr(ExprKind::maximum, {a, b}); }
Expr minimum(const Expr& a, const Expr& b) { return Expr(ExprKind::minimum, {a, b}); }
Expr power(const Expr& base, const Expr& exponent) { return Expr(ExprKind::power, {base, exponent}); }
Expr less(const Expr& a, const Expr& b) { return Expr(ExprKind::less, {a, b}); }
Expr less_equal(const Expr& a, const Expr& b) { return Expr(ExprKind::less_equal, {a, b}); }
Expr equal(const Expr& a, const Expr& b) { return Expr(ExprKind::equal, {a, b}); }
Expr select(const Expr& condition, const Expr& if_true, const Expr& if_false) {
  return Expr(ExprKind::select, {condition, if_true, if_false});
}

std::optional<DType> rounds_to(ExprKind kind) {
  if (kind == ExprKind::round_bf16) return DType::bf16;
  if (kind == ExprKind::round_fp16) return DType::fp16;
  return std::nullopt;
}

bool is_rounding(const Expr& body) {
  return rounds_to(body.kind()) && body.arg(0).kind() == ExprKind::input && body.arg(0).index() == 0;
}

namespace {

void append(const Expr& e, std::string* out);

/// A number that is compared is a float32, and said as one: 0.1.
void append_arg(const Expr& e, int i, std::string* out) {
  const Expr& arg = e.arg(i);
  if (compares(e.kind()) && arg.kind() == ExprKind::constant && double(float(arg.value())) == arg.value())
    fmt::format_to(std::back_inserter(*out), "{}", float(arg.value()));
  else
    append(arg, out);
}

void append_number(const char* name, int number, std::string* out) {
  *out += name;
  *out += fmt::format_int(number).c_str();
}

void append_call(const char* function, const Expr& e, std::string* out) {
  *out += function;
  *out += "(";
  for (size_t i = 0; i < e.args().size(); ++i) {
    if (i > 0) *out += ", ";
    append_arg(e, int(i), out);
  }
  *out += ")";
}

void append_infix(const char* op, const Expr& e, std::string* out) {
  *out += "(";
  append_arg(e, 0, out);
  *out += op;
  append_arg(e, 1, out);
  *out += ")";
}

/// In one string: programs are hashed by their text, and have thousands of bodies.
void append(const Expr& e, std::string* out) {
  switch (e.kind()) {
    case ExprKind::input:
      append_number("in", e.index(), out);
      return;
    case ExprKind::factor:
      append_number("f", e.index(), out);
      return;
    case ExprKind::constant:
      fmt::format_to(std::back_inserter(*out), "{}", e.value());
      return;
    case ExprKind::step:
      *out += "step";
      return;
    case ExprKind::random:
      append_number("random(", e.index(), out);
      *out += ")";
      return;
    case ExprKind::neg:
      *out += "(-";
      append(e.arg(0), out);
      *out += ")";
      return;
    case ExprKind::exp:
      return append_call("exp", e, out);
    case ExprKind::log:
      return append_call("log", e, out);
    case ExprKind::sqrt:
      return append_call("sqrt", e, out);
    case ExprKind::tanh:
      return append_call("tanh", e, out);
    case ExprKind::erf:
      return append_call("erf", e, out);
    case ExprKind::sin:
      return append_call("sin", e, out);
    case ExprKind::cos:
      return append_call("cos", e, out);
    case ExprKind::floor:
      return append_call("floor", e, out);
    case ExprKind::round_bf16:
      return append_call("bf16", e, out);
    case ExprKind::round_fp16:
      return append_call("fp16", e, out);
    case ExprKind::add:
      return append_infix(" + ", e, out);
    case ExprKind::sub:
      return append_infix(" - ", e, out);
    case ExprKind::mul:
      return append_infix(" * ", e, out);
    case ExprKind::div:
      return append_infix(" / ", e, out);
    case ExprKind::maximum:
      return append_call("maximum", e, out);
    case ExprKind::minimum:
      return append_call("minimum", e, out);
    case ExprKind::power:
      return append_call("power", e, out);
    case ExprKind::less:
      return append_infix(" < ", e, out);
    case ExprKind::less_equal:
      return append_infix(" <= ", e, out);
    case ExprKind::equal:
      return append_infix(" == ", e, out);
    case ExprKind::select:
      return append_call("select", e, out);
  }
}

}  // namespace

std::string text(const Expr& e) {
  std::string out;
  append(e, &out);
  return out;
}

namespace {

Linearity both(Linearity a, Linearity b) { return std::max(a, b); }

/// Linear only if every branch is linear or identically zero: a constant other than zero added to a linear part is
/// affine, not additive.
Linearity additive(const Expr& a, Linearity la, const Expr& b, Linearity lb) {
  if (la == Linearity::independent && lb == Linearity::independent) return Linearity::independent;
  bool fits_a = la == Linearity::linear || a.is_constant(0);
  bool fits_b = lb == Linearity::linear || b.is_constant(0);
  return fits_a && fits_b ? Linearity::linear : Linearity::nonlinear;
}

bool any_arg(const Expr& e, auto&& predicate) { return std::any_of(e.args().begin(), e.args().end(), predicate); }

}  // namespace

Linearity linearity(const Expr& e, const std::set<int>& operands) {
  auto of = [&](int i) { return linearity(e.arg(i), operands); };
  switch (e.kind()) {
    case ExprKind::input:
      return operands.count(e.index()) ? Linearity::linear : Linearity::independent;
    case ExprKind::factor:
    case ExprKind::constant:
    case ExprKind::step:
    case ExprKind::random:
      return Linearity::independent;
    case ExprKind::neg:
    case ExprKind::round_bf16:
    case ExprKind::round_fp16:
      return of(0);
    case ExprKind::add:
    case ExprKind::sub:
      return additive(e.arg(0), of(0), e.arg(1), of(1));
    case ExprKind::mul: {
      Linearity a = of(0), b = of(1);
      return a == Linearity::linear && b == Linearity::linear ? Linearity::nonlinear : both(a, b);
    }
    case ExprKind::div:
      return of(1) == Linearity::independent ? of(0) : Linearity::nonlinear;
    case ExprKind::select:
      if (of(0) != Linearity::independent) return Linearity::nonlinear;
      return additive(e.arg(1), of(1), e.arg(2), of(2));
    default: {
      bool touched = any_arg(e, [&](const Expr& arg) { return linearity(arg, operands) != Linearity::independent; });
      return touched ? Linearity::nonlinear : Linearity::independent;
    }
  }
}

bool mentions(const Expr& e, ExprKind kind) {
  return e.kind() == kind || any_arg(e, [&](const Expr& arg) { return mentions(arg, kind); });
}

bool mentions_input(const Expr& e, int operand) {
  if (e.kind() == ExprKind::input) return e.index() == operand;
  return any_arg(e, [&](const Expr& arg) { return mentions_input(arg, operand); });
}

bool mentions_factor(const Expr& e, int factor) {
  if (e.kind() == ExprKind::random) return true;
  if (e.kind() == ExprKind::factor) return e.index() == factor;
  return any_arg(e, [&](const Expr& arg) { return mentions_factor(arg, factor); });
}

double flops(const Expr& e, double transcendental_flops) {
  double total = 0;
  for (const Expr& arg : e.args()) total += flops(arg, transcendental_flops);
  switch (e.kind()) {
    case ExprKind::input:
    case ExprKind::factor:
    case ExprKind::constant:
    case ExprKind::step:
      return total;
    case ExprKind::exp:
    case ExprKind::log:
    case ExprKind::tanh:
    case ExprKind::erf:
    case ExprKind::sin:
    case ExprKind::cos:
    case ExprKind::power:
    case ExprKind::random:
      return total + transcendental_flops;
    default:
      return total + 1;
  }
}

bool match_one_hot(const Expr& e, OneHot* found) {
  if (e.kind() != ExprKind::select || !e.arg(2).is_constant(0) || e.arg(0).kind() != ExprKind::equal) return false;
  const Expr& a = e.arg(0).arg(0);
  const Expr& b = e.arg(0).arg(1);
  if (a.kind() != ExprKind::input || b.kind() != ExprKind::factor) return false;
  *found = OneHot{a.index(), b.index(), e.arg(1)};
  return true;
}

}  // namespace hetsynth
