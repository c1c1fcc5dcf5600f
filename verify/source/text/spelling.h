// Expressions and statements as parse.h would make them: for functions of the library, which are spelled out as the
// loops they stand for.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "verify/source/text/syntax.h"

namespace hetsynth::source {

inline Expression number(int64_t value) {
  Expression e;
  e.kind = Kind::integer;
  e.type = Type::integer;
  e.integer_value = value;
  return e;
}

inline Expression zero() {
  Expression e;
  e.kind = Kind::real;
  e.type = Type::real;
  return e;
}

inline Expression variable(int slot, Type type) {
  Expression e;
  e.kind = Kind::variable;
  e.type = type;
  e.slot = slot;
  return e;
}

inline Expression binary(Kind kind, Type type, Expression a, Expression b) {
  Expression e;
  e.kind = kind;
  e.type = type;
  e.line = a.line;
  e.args = {std::move(a), std::move(b)};
  return e;
}

inline Expression sum(Expression a, Expression b) {
  return binary(Kind::add, Type::integer, std::move(a), std::move(b));
}
inline Expression product(Expression a, Expression b) {
  return binary(Kind::mul, Type::integer, std::move(a), std::move(b));
}
inline Expression real(double value) {
  Expression e = zero();
  e.real_value = value;
  return e;
}
inline Expression plus(Expression a, Expression b) { return binary(Kind::add, Type::real, std::move(a), std::move(b)); }
inline Expression times(Expression a, Expression b) {
  return binary(Kind::mul, Type::real, std::move(a), std::move(b));
}
inline Expression call(const std::string& function, std::vector<Expression> args) {
  Expression e = zero();
  e.kind = Kind::call;
  e.name = function;
  e.line = args.front().line;
  e.args = std::move(args);
  return e;
}
inline Expression element(const Expression& base, Expression index) {
  return binary(Kind::element, base.type == Type::integers ? Type::integer : Type::real, base, std::move(index));
}

inline Statement statement_like(const Statement& at, Statement::Kind kind) {
  Statement out;
  out.kind = kind;
  out.line = at.line;
  return out;
}

}  // namespace hetsynth::source
