// Internal to parsing: the statements of Clang's tree as those of syntax.h.
#pragma once
#include <clang/AST/Stmt.h>

#include "verify/source/text/parse_expression.h"

namespace hetsynth::source {

/// What is annotated so on a variable lies in memory that the threads of a block share (cuda_words).
constexpr llvm::StringRef shared_note = "shared";

/// A function's body, its statements numbered in the order of the text.
Statement parse_body(const clang::Stmt* body, ExpressionParser& expressions);

}  // namespace hetsynth::source
