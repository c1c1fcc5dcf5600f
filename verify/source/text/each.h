// Everything that a text consists of, from the outside in: constant, or to be changed.
#pragma once
#include "verify/source/text/syntax.h"

namespace hetsynth::source {

/// The statement and all inside of it.
template <class Statement_, class Visit>
void each_statement(Statement_& s, const Visit& visit) {
  visit(s);
  for (auto& inner : s.body) each_statement(inner, visit);
}

/// The expression and all that it consists of.
template <class Expression_, class Visit>
void each_expression(Expression_& e, const Visit& visit) {
  visit(e);
  for (auto& arg : e.args) each_expression(arg, visit);
}

/// The expressions of the statement itself, without those of statements inside of it.
template <class Statement_, class Visit>
void each_expression_of(Statement_& s, const Visit& visit) {
  for (auto* e : {&s.target, &s.value, &s.limit, &s.increment}) each_expression(*e, visit);
  for (auto& e : s.list) each_expression(e, visit);
}

}  // namespace hetsynth::source
