// What computing one element needs, of the files that a Meaning is made of.
#pragma once
#include "verify/source/meaning/meaning.h"

namespace hetsynth::source {

/// Longest chain of values that are not in memory. Where the norm of all gradients is bounded, their squares are added
/// up in such a chain, and deep models have a thousand parameters. A chain of 3,900 fits into a stack of 2 MiB.
constexpr int deepest = 4000;

struct Meaning::Compute {
  const Instruction& instruction;
  const Node& node;
  std::vector<int64_t>& factor;
  const Index& output;
};

/// What is made again is made of what was made again, and what the first one was made of may be gone by then.
template <class Make>
double Meaning::by_own_or_first(ValueId value, const Make& make) {
  const ValueId first = root(value);
  if (value == first) return make(value);
  try {
    return make(value);
  } catch (const NotHeld&) {
    return make(first);
  }
}

}  // namespace hetsynth::source
