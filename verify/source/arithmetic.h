// What operators of the text do with numbers that are known: the same for constants, regions and kernels.
#pragma once
#include <limits>
#include <optional>

#include "verify/source/meaning.h"
#include "verify/source/outline.h"

namespace hetsynth::source {

/// add, sub, mul, div or modulo of integers; sums and products wrap. Throws Misstep.
inline int64_t computed(const Expression& e, int64_t a, int64_t b) {
  switch (e.kind) {
    case Kind::add:
      return int64_t(uint64_t(a) + uint64_t(b));
    case Kind::sub:
      return int64_t(uint64_t(a) - uint64_t(b));
    case Kind::mul:
      return int64_t(uint64_t(a) * uint64_t(b));
    default:
      if (b == 0 || (a == std::numeric_limits<int64_t>::min() && b == -1)) throw Misstep("a division by zero", e.line);
      return e.kind == Kind::div ? a / b : a % b;
  }
}

/// The same of reals, without modulo.
inline double computed(const Expression& e, double a, double b) {
  switch (e.kind) {
    case Kind::add:
      return a + b;
    case Kind::sub:
      return a - b;
    case Kind::mul:
      return a * b;
    default:
      return a / b;
  }
}

/// less, less_equal or equal.
template <class T>
bool holds(Kind comparison, T a, T b) {
  return comparison == Kind::less ? a < b : comparison == Kind::less_equal ? a <= b : a == b;
}

/// A comparison of integers; of unsigned ones where a side was made so.
inline bool holds(const Expression& e, int64_t a, int64_t b) {
  const bool without_sign = e.args[0].kind == Kind::to_unsigned || e.args[1].kind == Kind::to_unsigned;
  return without_sign ? holds(e.kind, uint64_t(a), uint64_t(b)) : holds(e.kind, a, b);
}

/// The seed of the run; none: it is something else.
inline std::optional<int64_t> seed_of_context(const Expression& member) {
  if (member.name == "seed") return int64_t(Sample::run_seed);
  return {};
}

}  // namespace hetsynth::source
