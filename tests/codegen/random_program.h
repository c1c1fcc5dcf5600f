// Programs for tests of generated loops: given by a builder, or random.
#pragma once
#include <functional>

#include "dsl/ir/program.h"

namespace hetsynth::test {

/// What the builder makes, every tensor named.
Program traced(const std::function<void()>& builder);

/// Within a property of RapidCheck: a program of elementwise operators, row and column reductions, transposes, rows
/// moved by one and softmaxes over tensors that broadcast.
Program random_program();

}  // namespace hetsynth::test
