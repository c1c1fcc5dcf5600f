// The line of the user's file a message speaks of, with a caret under the place.
#pragma once
#include "dsl/base/error.h"

namespace hetsynth {

/// Two lines, "    7 |   Tensor h = matmul(x, w);" and a caret below the column; empty if the file cannot be read or
/// has no such line.
std::string source_excerpt(const SourceLocation& where);

/// The diagnostic with excerpts as the details of its place and its notes, where there are none yet.
Diagnostic with_excerpts(Diagnostic diagnostic);

}  // namespace hetsynth
