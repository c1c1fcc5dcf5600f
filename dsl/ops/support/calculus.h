// Symbolic work on element expressions: gradients of bodies, renumbering of what they mention.
#pragma once
#include <functional>
#include <optional>

#include "dsl/ir/expr.h"

namespace hetsynth {

/// d(body)/d(input `operand`) times `seed`, by the chain rule, lightly simplified; nullopt where it is zero everywhere.
/// At a tie of maximum or minimum both sides get half. Comparisons, conditions and floor carry no gradient.
std::optional<Expr> gradient(const Expr& body, int operand, const Expr& seed);

/// The expression with leaves exchanged: `replace` is asked for every input and factor; nullopt keeps it.
Expr substitute(const Expr& expr, const std::function<std::optional<Expr>(const Expr&)>& replace);

}  // namespace hetsynth
