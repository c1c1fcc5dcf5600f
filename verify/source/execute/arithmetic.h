// What operators of the text do with numbers that are known: the same for constants, regions and kernels.
#pragma once
#include <limits>
#include <optional>

#include "verify/source/execute/outline.h"
#include "verify/source/meaning/meaning.h"

namespace hetsynth::source {

/// What of a text's numbers does not fit 64 bits is not followed: neither the text nor this check counts on.
[[noreturn]] inline void too_large(int line) { throw NotFollowed("a number of more than 64 bits", line); }
inline int64_t sum(int64_t a, int64_t b, int line) {
  int64_t out;
  if (__builtin_add_overflow(a, b, &out)) too_large(line);
  return out;
}
inline int64_t difference(int64_t a, int64_t b, int line) {
  int64_t out;
  if (__builtin_sub_overflow(a, b, &out)) too_large(line);
  return out;
}
inline int64_t product(int64_t a, int64_t b, int line) {
  int64_t out;
  if (__builtin_mul_overflow(a, b, &out)) too_large(line);
  return out;
}

/// A number of elements or bytes that a device may have, with room to multiply it by the number of devices.
inline int64_t within_memory(int64_t number, int line) {
  constexpr int64_t most = int64_t(1) << 44;
  if (number > most || number < -most) throw NotFollowed("a place or a number of elements beyond any memory", line);
  return number;
}

/// Throws Misstep if the value of the expression has more bits than its type, which the device would cut off. Unsigned
/// ones that are negative in between come out right.
inline int64_t fitting(const Expression& e, int64_t value) {
  constexpr int64_t least = std::numeric_limits<int32_t>::min(), most = std::numeric_limits<int32_t>::max();
  if (e.narrow && (value < least || value > most)) throw Misstep("an integer of 32 bits overflows", e.line);
  return value;
}

/// add, sub, mul, div or modulo of integers. Throws Misstep, NotFollowed.
inline int64_t computed(const Expression& e, int64_t a, int64_t b) {
  switch (e.kind) {
    case Kind::add:
      return fitting(e, sum(a, b, e.line));
    case Kind::sub:
      return fitting(e, difference(a, b, e.line));
    case Kind::mul:
      return fitting(e, product(a, b, e.line));
    default:
      if (b == 0 || (a == std::numeric_limits<int64_t>::min() && b == -1)) throw Misstep("a division by zero", e.line);
      return e.kind == Kind::div ? a / b : a % b;
  }
}

/// The byte of the arena where an element begins, counted from the pointer on.
inline int64_t place_of(const Pointer& from, int64_t element, Type pointer, int line) {
  return sum(from.at, product(element, stride_of(pointer), line), line);
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
