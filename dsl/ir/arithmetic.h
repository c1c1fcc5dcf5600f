// The functions of one and two numbers that bodies are made of, in double: what the interpreter and the check of
// generated source compute with.
#pragma once
#include <optional>

#include "dsl/ir/expr.h"

namespace hetsynth {

/// The value of an expression of this kind whose arguments have these values (`b` counts where it has two). Comparisons
/// give 1 or 0; a cast to bf16 or fp16 rounds. nullopt for kinds that are no function of one or two numbers.
std::optional<double> arithmetic(ExprKind kind, double a, double b);

/// Whether an expression of this kind compares its arguments: they decide which way it goes, by however little.
bool compares(ExprKind kind);

}  // namespace hetsynth
