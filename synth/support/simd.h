// Lines of numbers in whole vectors, for message passing: a line has room up to the next multiple of the lanes. Sums
// and minima of single entries are the same in vectors of any width: so are plans, on any machine.
#pragma once
#include <cstddef>
#include <cstring>

#include "synth/support/function_multiversioning.h"

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
/// Places in a line.
typedef int Places __attribute__((vector_size(lanes * sizeof(int))));
/// The same anywhere in a line of such numbers.
typedef Rough LanesInLine __attribute__((vector_size(lanes * sizeof(Rough)), aligned(alignof(Rough))));
typedef int PlacesInLine __attribute__((vector_size(lanes * sizeof(int)), aligned(alignof(int))));

/// What every machine has registers for.
typedef Rough Quad __attribute__((vector_size(4 * sizeof(Rough))));
[[gnu::always_inline]] inline Quad quad_at(const Rough* line) {
  Quad out;
  std::memcpy(&out, line, sizeof out);
  return out;
}
[[gnu::always_inline]] inline Quad lesser(Quad a, Quad b) { return a < b ? a : b; }

[[gnu::always_inline]] inline void load(const Rough* line, Lanes* out) {
  *out = *reinterpret_cast<const LanesInLine*>(line);
}
[[gnu::always_inline]] inline void load(const int* line, Places* out) {
  *out = *reinterpret_cast<const PlacesInLine*>(line);
}
[[gnu::always_inline]] inline void store(const Lanes& numbers, Rough* line) {
  *reinterpret_cast<LanesInLine*>(line) = numbers;
}

/// Its least number, in all lanes.
[[gnu::always_inline]] inline void spread_least(Lanes* numbers) {
  const Lanes halves = __builtin_shufflevector(*numbers, *numbers, 4, 5, 6, 7, 0, 1, 2, 3);
  *numbers = halves < *numbers ? halves : *numbers;
  const Lanes quarters = __builtin_shufflevector(*numbers, *numbers, 2, 3, 0, 1, 6, 7, 4, 5);
  *numbers = quarters < *numbers ? quarters : *numbers;
  const Lanes others = __builtin_shufflevector(*numbers, *numbers, 1, 0, 3, 2, 5, 4, 7, 6);
  *numbers = others < *numbers ? others : *numbers;
}

/// Zeros in place of all but the first `count`, one to all.
[[gnu::always_inline]] inline void keep_first(size_t count, Lanes* numbers) {
  static constexpr int kept[2 * lanes] = {-1, -1, -1, -1, -1, -1, -1, -1};
  Places some;
  load(kept + lanes - count, &some);
  *numbers = Lanes(Places(*numbers) & some);
}

/// What is in some places of a vector, or of two side by side: Clang picks one after the other.
[[gnu::always_inline]] inline void pick(const Lanes& line, const Places& at, Lanes* out) {
#ifdef __clang__
  for (size_t i = 0; i < lanes; ++i) (*out)[i] = line[at[i]];
#else
  *out = __builtin_shuffle(line, at);
#endif
}
[[gnu::always_inline]] inline void pick(const Lanes& first, const Lanes& second, const Places& at, Lanes* out) {
#ifdef __clang__
  for (size_t i = 0; i < lanes; ++i) (*out)[i] = at[i] < int(lanes) ? first[at[i]] : second[at[i] - int(lanes)];
#else
  *out = __builtin_shuffle(first, second, at);
#endif
}

/// Whether places can be picked in registers. Else vectors of them are taken apart, which is slower than none.
inline bool picks_in_registers() {
#ifdef HETSYNTH_HAS_AVX2_TOO
  static const bool known = __builtin_cpu_supports("avx2");
  return known;
#else
  return false;
#endif
}

/// What is in some places of a line of so many numbers: each(i, line[places[i]], ..., line[places[i + lanes - 1]]) for
/// whole vectors of places, or each(i, line[places[i]]) for one after the other unless `wide`. Lines of one or two
/// vectors stay in registers.
template <class Each>
[[gnu::always_inline]] inline void for_each_at(bool wide, const Rough* line, size_t numbers, const int* places,
                                               size_t count, const Each& each) {
  if (!wide || numbers > 2 * lanes) {
    for (size_t i = 0; i < count; ++i) each(i, line[places[i]]);
    return;
  }
  Lanes first, second, found;
  Places at;
  load(line, &first);
  if (numbers <= lanes) {
    for (size_t i = 0; i < count; i += lanes) {
      load(places + i, &at);
      pick(first, at, &found);
      each(i, found);
    }
    return;
  }
  load(line + lanes, &second);
  for (size_t i = 0; i < count; i += lanes) {
    load(places + i, &at);
    pick(first, second, at, &found);
    each(i, found);
  }
}

/// To a line of costs what is picked for it.
struct AddPicked {
  Rough* total;
  [[gnu::always_inline]] void operator()(size_t i, const Lanes& picked) const {
    Lanes sum;
    load(total + i, &sum);
    store(sum + picked, total + i);
  }
  [[gnu::always_inline]] void operator()(size_t i, Rough picked) const { total[i] += picked; }
};

/// A share of a line less what is picked.
struct ShareLessPicked {
  const Rough* line;
  Rough share;
  Rough* out;
  [[gnu::always_inline]] void operator()(size_t i, const Lanes& picked) const {
    Lanes numbers;
    load(line + i, &numbers);
    store(share * numbers - picked, out + i);
  }
  [[gnu::always_inline]] void operator()(size_t i, Rough picked) const { out[i] = share * line[i] - picked; }
};

/// Of so many rows of places, one vector each, what a line of two vectors at most has least in each column.
[[gnu::always_inline]] inline void least_at(const Rough* line, size_t numbers, const int* places, int rows,
                                            Lanes* least) {
  Lanes first, second, found;
  Places at;
  load(line, &first);
  second = first;
  if (numbers > lanes) load(line + lanes, &second);
  for (int row = 0; row < rows; ++row, places += lanes) {
    load(places, &at);
    if (numbers > lanes)
      pick(first, second, at, &found);
    else
      pick(first, at, &found);
    *least = found < *least ? found : *least;
  }
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

/// The same of one number at least, with zeros behind the last.
[[gnu::always_inline]] inline void scale_line_padded(const Rough* line, size_t count, Rough less, Rough times,
                                                     Rough* out) {
  size_t i = 0;
  Lanes numbers;
  for (; i + lanes < count; i += lanes) {
    load(line + i, &numbers);
    store((numbers - less) * times, out + i);
  }
  load(line + i, &numbers);
  numbers = (numbers - less) * times;
  keep_first(count - i, &numbers);
  store(numbers, out + i);
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

/// The least over rows, some vectors of which are side by side: they stay in registers while all rows pass by.
template <int vectors>
[[gnu::always_inline]] inline void minimum_of_rows(const Rough* row, size_t columns, int rows, const Rough* weights,
                                                   Lanes (&best)[vectors]) {
  for (Lanes& least : best) least = Lanes{} + 4 * rough_forbidden;
  const auto take = [&](const Rough* costs_at, Rough weight) __attribute__((always_inline)) {
    for (int v = 0; v < vectors; ++v) {
      Lanes costs;
      load(costs_at + size_t(v) * lanes, &costs);
      costs += weight;
      best[v] = costs < best[v] ? costs : best[v];
    }
  };
  int x = 0;
  for (; x + 1 < rows; x += 2, row += 2 * columns) take(row, weights[x]), take(row + columns, weights[x + 1]);
  if (x < rows) take(row, weights[x]);
}
template <int vectors>
[[gnu::always_inline]] inline void minimum_of_rows(const Rough* row, size_t columns, int rows, const Rough* weights,
                                                   Rough* out) {
  Lanes best[vectors];
  minimum_of_rows(row, columns, rows, weights, best);
  for (size_t v = 0; v < size_t(vectors); ++v) store(best[v], out + v * lanes);
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
