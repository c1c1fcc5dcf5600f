// Random chains of views (reversed, repeated, transposed, cut, merged, windows that overlap), for properties of
// rapidcheck.
#pragma once
#include "hetsynth/hetsynth.h"

namespace hetsynth::test {

/// Operators that a library or a loop computes.
constexpr int operators_of_views = 10;

/// One of these operators, of parameters seen through views.
Tensor computed_of_views(int which);

/// What is made of a tensor by one to four views, and possibly by a mean over one of the dimensions behind them.
Tensor viewed(Tensor x);

}  // namespace hetsynth::test
