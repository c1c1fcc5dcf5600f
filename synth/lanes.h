// Lines of numbers in whole vectors, for message passing: a line has room up to the next multiple of the lanes. Sums
// and minima of single entries are the same in vectors of any width: so are plans, on any machine.
#pragma once
#include <cstddef>
#include <cstring>

namespace hetsynth::synth {

/// Costs in message passing. Single precision does: bounds are worked out anew in whole picoseconds.
using Rough = float;
/// What is forbidden: finite, so that differences stay numbers.
constexpr Rough rough_forbidden = 1e17f;
/// Behind the end of a line whose least is asked for: more than anything in it.
constexpr Rough rough_padding = 4 * rough_forbidden;

constexpr size_t lanes = 8;
constexpr size_t padded(size_t count) { return (count + lanes - 1) / lanes * lanes; }
typedef Rough Lanes __attribute__((vector_size(lanes * sizeof(Rough))));

/// What every machine has registers for.
typedef Rough Quad __attribute__((vector_size(4 * sizeof(Rough))));
[[gnu::always_inline]] inline Quad quad_at(const Rough* line) {
  Quad out;
  std::memcpy(&out, line, sizeof out);
  return out;
}
[[gnu::always_inline]] inline Quad lesser(Quad a, Quad b) { return a < b ? a : b; }

/// out[i] = made(a[i], b[i]) for the vectors of a line.
template <typename Made>
[[gnu::always_inline]] inline void for_quads(size_t count, const Rough* a, const Rough* b, Rough* out,
                                             const Made& made) {
  for (size_t i = 0; i < count; i += 4) {
    const Quad sum = made(quad_at(a + i), quad_at(b + i));
    std::memcpy(out + i, &sum, sizeof sum);
  }
}

/// The least of a line of one number at least, whose padding is not less.
[[gnu::always_inline]] inline Rough least_of_line(const Rough* line, size_t count) {
  Quad best = quad_at(line), other = quad_at(line + 4);
  for (size_t i = lanes; i < count; i += lanes) {
    best = lesser(quad_at(line + i), best);
    other = lesser(quad_at(line + i + 4), other);
  }
  best = lesser(other, best);
  best = lesser(__builtin_shufflevector(best, best, 2, 3, 0, 1), best);
  return best[1] < best[0] ? best[1] : best[0];
}

}  // namespace hetsynth::synth
