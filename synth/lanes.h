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

[[gnu::always_inline]] inline void load(const Rough* line, Lanes* out) { std::memcpy(out, line, sizeof *out); }
[[gnu::always_inline]] inline void store(const Lanes& numbers, Rough* line) {
  std::memcpy(line, &numbers, sizeof numbers);
}

/// To the vectors of a line those of another.
[[gnu::always_inline]] inline void add_line(const Rough* line, size_t count, Rough* total) {
  for (size_t i = 0; i < count; i += lanes) {
    Lanes sum, more;
    load(total + i, &sum), load(line + i, &more);
    store(sum + more, total + i);
  }
}

/// out[i] = (line[i] - less) * times
[[gnu::always_inline]] inline void scale_line(const Rough* line, size_t count, Rough less, Rough times, Rough* out) {
  for (size_t i = 0; i < count; i += lanes) {
    Lanes numbers;
    load(line + i, &numbers);
    store((numbers - less) * times, out + i);
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

/// Some vectors of `out` beside each other: they stay in registers while all rows pass by.
template <int vectors>
[[gnu::always_inline]] inline void minimum_of_rows(const Rough* row, size_t columns, int rows, const Rough* weights,
                                                   Rough* out) {
  Lanes best[vectors];
  for (int v = 0; v < vectors; ++v) best[v] = Lanes{} + 4 * rough_forbidden;
  for (int x = 0; x < rows; ++x, row += columns) {
    const Rough weight = weights[x];
    for (int v = 0; v < vectors; ++v) {
      Lanes costs;
      load(row + size_t(v) * lanes, &costs);
      costs += weight;
      best[v] = costs < best[v] ? costs : best[v];
    }
  }
  std::memcpy(out, best, sizeof best);
}

/// out[y] = min over x of weights[x] + row[x][y], rows of `columns`, a multiple of the lanes.
[[gnu::always_inline]] inline void minimum_plus(const Rough* row, size_t columns, int rows, const Rough* weights,
                                                Rough* out) {
  constexpr size_t at_once = 6 * lanes;
  size_t y = 0;
  for (; y + at_once <= columns; y += at_once) minimum_of_rows<6>(row + y, columns, rows, weights, out + y);
  switch ((columns - y) / lanes) {
    case 5:
      return minimum_of_rows<5>(row + y, columns, rows, weights, out + y);
    case 4:
      return minimum_of_rows<4>(row + y, columns, rows, weights, out + y);
    case 3:
      return minimum_of_rows<3>(row + y, columns, rows, weights, out + y);
    case 2:
      return minimum_of_rows<2>(row + y, columns, rows, weights, out + y);
    case 1:
      return minimum_of_rows<1>(row + y, columns, rows, weights, out + y);
    default:
      return;
  }
}

}  // namespace hetsynth::synth
