// The meaning of one element: a small immutable expression over input elements, factor indices and constants.
// Interpreter, code generator and verifier all read operators through this and iteration spaces alone.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dsl/ir/type.h"

namespace hetsynth {

enum class ExprKind : uint8_t {
  input,     ///< element of input operand `index`, at that operand's access in the iteration space
  factor,    ///< GLOBAL index of factor `index` (an integer)
  constant,  ///< `value`
  step,      ///< number of the training step, 0 for the first
  random,    ///< uniform in [0,1): Philox of (run seed, stream `index`, GLOBAL row-major index of the output element,
             ///< step)
  neg,
  exp,
  log,
  sqrt,
  tanh,
  erf,
  sin,
  cos,
  floor,
  round_bf16,  ///< to the nearest number that bf16 holds; over the reals nothing happens
  round_fp16,  ///< the same with fp16
  add,
  sub,
  mul,
  div,
  maximum,
  minimum,
  power,
  less,
  less_equal,
  equal,   ///< 1 or 0
  select,  ///< args[0] != 0 ? args[1] : args[2]
};

class Expr;

struct ExprNode {
  ExprKind kind;
  int index = 0;
  double value = 0;
  std::vector<Expr> args;
};

/// Value-semantic handle of an expression tree; copies share nodes.
class Expr {
 public:
  /// A number beyond what float32 reaches is infinite, one below it zero.
  Expr(double value);  // NOLINT: constants read naturally in bodies
  Expr(ExprKind kind, std::vector<Expr> args);
  static Expr input(int operand);
  static Expr factor(int factor);
  static Expr step();
  static Expr random(int stream);

  ExprKind kind() const { return node_->kind; }
  int index() const { return node_->index; }
  double value() const { return node_->value; }
  const std::vector<Expr>& args() const { return node_->args; }
  const Expr& arg(int i) const { return node_->args[i]; }
  bool is_constant(double value) const { return kind() == ExprKind::constant && node_->value == value; }
  bool operator==(const Expr& other) const;

 private:
  explicit Expr(ExprNode node);
  std::shared_ptr<const ExprNode> node_;
};

Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator*(const Expr& a, const Expr& b);
Expr operator/(const Expr& a, const Expr& b);
Expr operator-(const Expr& a);
Expr exp(const Expr& a);
Expr log(const Expr& a);
Expr sqrt(const Expr& a);
Expr tanh(const Expr& a);
Expr erf(const Expr& a);
Expr sin(const Expr& a);
Expr cos(const Expr& a);
Expr floor(const Expr& a);
/// To the nearest number of a format of 16 bits.
Expr round_to(DType half, const Expr& a);
Expr maximum(const Expr& a, const Expr& b);
Expr minimum(const Expr& a, const Expr& b);
Expr power(const Expr& base, const Expr& exponent);
Expr less(const Expr& a, const Expr& b);
Expr less_equal(const Expr& a, const Expr& b);
Expr equal(const Expr& a, const Expr& b);
Expr select(const Expr& condition, const Expr& if_true, const Expr& if_false);

/// The format that a kind rounds to; nullopt: it is no rounding.
std::optional<DType> rounds_to(ExprKind kind);
/// Whether a body is its first operand, rounded.
bool is_rounding(const Expr& body);

/// Infix text with inputs as in0, in1 and factors by number as f0, f1: "(in0 * in1)". Stable: hashed into plans.
std::string text(const Expr& expr);

/// How an expression depends on a set of input operands taken together, the others held fixed.
enum class Linearity : uint8_t {
  independent,  ///< does not mention them
  linear,       ///< additive and homogeneous: body(a+b) = body(a) + body(b); partial sums pass through
  nonlinear,
};
Linearity linearity(const Expr& expr, const std::set<int>& operands);

/// Whether the expression or a part of it is of that kind.
bool mentions(const Expr& expr, ExprKind kind);
/// Whether the expression mentions that input operand.
bool mentions_input(const Expr& expr, int operand);
/// Whether the expression mentions that factor's index, a random draw counting as a mention of every factor.
bool mentions_factor(const Expr& expr, int factor);
/// Number of arithmetic operations of one evaluation, transcendental functions counted as `transcendental_flops`.
double flops(const Expr& expr, double transcendental_flops = 10);

/// "One-hot" structure: select(equal(in_j, f_k), rest, 0) with j and k as given back. Such a body is non-zero at
/// exactly one value of factor k, so loops over k collapse to one lookup (embedding, label pick) or a scatter (their
/// gradients).
struct OneHot {
  int operand;  ///< the integer input that names the position
  int factor;   ///< the factor it is compared with
  Expr rest;    ///< value at that position
};
/// True and `*found` set if `expr` has that structure.
bool match_one_hot(const Expr& expr, OneHot* found);

}  // namespace hetsynth
