#include "verify/solver/body_terms.h"

namespace hetsynth {

using smt::Solver;
using smt::Term;

namespace {

class Translator {
 public:
  Translator(Solver& solver, const BodyTerms& terms) : s_(solver), terms_(terms) {}

  Term value(const Expr& e) {
    switch (e.kind()) {
      case ExprKind::input:
        return terms_.input(e.index());
      case ExprKind::factor:
        return terms_.factor(e.index());
      case ExprKind::constant:
        return s_.real(e.value());
      case ExprKind::step:
        return s_.real_symbol("step");
      case ExprKind::random:
        return terms_.random(e.index());
      case ExprKind::neg:
        return s_.negative(value(e.arg(0)));
      case ExprKind::round_bf16:
      case ExprKind::round_fp16:
        return value(e.arg(0));  // real numbers: see the scope of a proof
      case ExprKind::add:
        return s_.add(value(e.arg(0)), value(e.arg(1)));
      case ExprKind::sub:
        return s_.sub(value(e.arg(0)), value(e.arg(1)));
      case ExprKind::mul:
        return product(e.arg(0), e.arg(1));
      case ExprKind::div:
        return ratio(e.arg(0), e.arg(1));
      case ExprKind::maximum:
      case ExprKind::minimum:
        return extremum(e);
      case ExprKind::less:
      case ExprKind::less_equal:
      case ExprKind::equal:
        return s_.choose(condition(e), s_.real(1), s_.real(0));
      case ExprKind::select:
        return s_.choose(condition(e.arg(0)), value(e.arg(1)), value(e.arg(2)));
      case ExprKind::exp:
        return function("exp", e);
      case ExprKind::log:
        return function("log", e);
      case ExprKind::sqrt:
        return function("sqrt", e);
      case ExprKind::tanh:
        return function("tanh", e);
      case ExprKind::erf:
        return function("erf", e);
      case ExprKind::sin:
        return function("sin", e);
      case ExprKind::cos:
        return function("cos", e);
      case ExprKind::floor:
        return function("floor", e);
      case ExprKind::power:
        return function("power", e);
    }
    return s_.real(0);
  }

 private:
  Term condition(const Expr& e) {
    if (e.kind() == ExprKind::less) return s_.less(value(e.arg(0)), value(e.arg(1)));
    if (e.kind() == ExprKind::less_equal) return s_.less_equal(value(e.arg(0)), value(e.arg(1)));
    if (e.kind() == ExprKind::equal) return s_.equal(value(e.arg(0)), value(e.arg(1)));
    return s_.negation(s_.equal(value(e), s_.real(0)));
  }

  Term function(const std::string& name, const Expr& e) {
    std::vector<Term> arguments;
    for (const Expr& arg : e.args()) arguments.push_back(value(arg));
    return s_.apply(name, arguments);
  }

  Term times(Term a, Term b) {
    if (!terms_.opaque_products) return s_.mul(a, b);
    if (terms_.products) terms_.products->push_back({a, b});
    return opaque_product(s_, a, b);
  }

  Term product(const Expr& a, const Expr& b) {
    bool scaled = a.kind() == ExprKind::constant || b.kind() == ExprKind::constant;
    return scaled ? s_.mul(value(a), value(b)) : times(value(a), value(b));
  }

  /// a / b = a * (1 / b) with 1 / b a function of b alone.
  Term ratio(const Expr& a, const Expr& b) { return times(value(a), s_.apply("reciprocal", {value(b)})); }

  Term extremum(const Expr& e) {
    Term a = value(e.arg(0)), b = value(e.arg(1));
    bool maximum = e.kind() == ExprKind::maximum;
    return s_.choose(s_.less(a, b), maximum ? b : a, maximum ? a : b);
  }

  Solver& s_;
  const BodyTerms& terms_;
};

}  // namespace

Term opaque_product(Solver& solver, Term a, Term b) { return solver.apply("product", {a, b}); }

Term translate(Solver& solver, const Expr& body, const BodyTerms& terms) {
  return Translator(solver, terms).value(body);
}

}  // namespace hetsynth
