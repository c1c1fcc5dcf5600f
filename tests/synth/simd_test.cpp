// Lines of numbers in whole vectors against one number at a time, in wide registers, where the machine has them, and
// without.
#include "synth/support/simd.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace hetsynth {
namespace {

using namespace synth;

/// Small whole numbers: sums of them are exact.
std::vector<Rough> line_of(size_t count, Rough padding) {
  std::vector<Rough> out(padded(count), padding);
  for (size_t i = 0; i < count; ++i) out[i] = Rough(*rc::gen::inRange(-50, 50));
  return out;
}

std::vector<int> places_in(size_t count, size_t numbers) {
  std::vector<int> out(padded(count), 0);
  for (size_t i = 0; i < count; ++i) out[i] = *rc::gen::inRange(0, int(numbers));
  return out;
}

size_t some(int most) { return size_t(*rc::gen::inRange(1, most + 1)); }

struct Kernels {
  void (*found)(const Rough* line, size_t numbers, const int* places, size_t count, Rough* out);
  void (*least)(const Rough* line, size_t numbers, const int* places, int rows, Rough* out);
  void (*minimum)(const Rough* row, size_t columns, int rows, const Rough* weights, Rough* out);
  void (*scaled)(const Rough* line, size_t count, Rough less, Rough times, Rough* out);
  void (*spread)(const Rough* line, Rough* out);
};

/// Adds to zeros.
[[gnu::always_inline]] inline void find(bool wide, const Rough* line, size_t numbers, const int* places, size_t count,
                                        Rough* out) {
  for_each_at(wide, line, numbers, places, count, AddPicked{out});
}
[[gnu::always_inline]] inline void find_least(const Rough* line, size_t numbers, const int* places, int rows,
                                              Rough* out) {
  Lanes least = Lanes{} + rough_forbidden;
  least_at(line, numbers, places, rows, &least);
  store(least, out);
}
[[gnu::always_inline]] inline void spread(const Rough* line, Rough* out) {
  Lanes numbers;
  load(line, &numbers);
  spread_least(&numbers);
  store(numbers, out);
}

void found(const Rough* line, size_t numbers, const int* places, size_t count, Rough* out) {
  find(false, line, numbers, places, count, out);
}
void least(const Rough* line, size_t numbers, const int* places, int rows, Rough* out) {
  find_least(line, numbers, places, rows, out);
}
void minimum(const Rough* row, size_t columns, int rows, const Rough* weights, Rough* out) {
  minimum_plus(row, columns, rows, weights, out);
}
void scaled(const Rough* line, size_t count, Rough less, Rough times, Rough* out) {
  scale_line_padded(line, count, less, times, out);
}
void spread_out(const Rough* line, Rough* out) { spread(line, out); }

HETSYNTH_AVX2_TOO void wide_found(const Rough* line, size_t numbers, const int* places, size_t count, Rough* out) {
  find(true, line, numbers, places, count, out);
}
HETSYNTH_AVX2_TOO void wide_least(const Rough* line, size_t numbers, const int* places, int rows, Rough* out) {
  find_least(line, numbers, places, rows, out);
}
HETSYNTH_AVX2_TOO void wide_minimum(const Rough* row, size_t columns, int rows, const Rough* weights, Rough* out) {
  minimum_plus(row, columns, rows, weights, out);
}
HETSYNTH_AVX2_TOO void wide_scaled(const Rough* line, size_t count, Rough less, Rough times, Rough* out) {
  scale_line_padded(line, count, less, times, out);
}
HETSYNTH_AVX2_TOO void wide_spread(const Rough* line, Rough* out) { spread(line, out); }

const Kernels kernels[] = {{found, least, minimum, scaled, spread_out},
                           {wide_found, wide_least, wide_minimum, wide_scaled, wide_spread}};

RC_GTEST_PROP(Lanes, ArePickedByPlace, ()) {
  const size_t numbers = some(40), count = some(40);
  const std::vector<Rough> line = line_of(numbers, 0);
  const std::vector<int> places = places_in(count, numbers);
  for (const Kernels& k : kernels) {
    std::vector<Rough> out(padded(count));
    k.found(line.data(), numbers, places.data(), count, out.data());
    for (size_t i = 0; i < count; ++i) RC_ASSERT(out[i] == line[size_t(places[i])]);
  }
}

RC_GTEST_PROP(Lanes, GiveTheLeastOfPlacesByColumn, ()) {
  const size_t numbers = some(2 * lanes), rows = some(6);
  const std::vector<Rough> line = line_of(numbers, rough_padding);
  const std::vector<int> places = places_in(rows * lanes, numbers);
  for (const Kernels& k : kernels) {
    std::vector<Rough> out(lanes);
    k.least(line.data(), numbers, places.data(), int(rows), out.data());
    for (size_t column = 0; column < lanes; ++column) {
      Rough expected = rough_forbidden;
      for (size_t row = 0; row < rows; ++row) expected = std::min(expected, line[size_t(places[row * lanes + column])]);
      RC_ASSERT(out[column] == expected);
    }
  }
}

RC_GTEST_PROP(Lanes, GiveTheMinimumOverRows, ()) {
  const size_t columns = padded(some(70)), rows = some(20);
  const std::vector<Rough> table = line_of(rows * columns, 0), weights = line_of(rows, 0);
  for (const Kernels& k : kernels) {
    std::vector<Rough> out(columns);
    k.minimum(table.data(), columns, int(rows), weights.data(), out.data());
    for (size_t y = 0; y < columns; ++y) {
      Rough expected = rough_padding;
      for (size_t x = 0; x < rows; ++x) expected = std::min(expected, weights[x] + table[x * columns + y]);
      RC_ASSERT(out[y] == expected);
    }
  }
}

RC_GTEST_PROP(Lanes, AreScaledWithZerosBehind, ()) {
  const size_t count = some(40);
  const std::vector<Rough> line = line_of(count, rough_padding);
  for (const Kernels& k : kernels) {
    std::vector<Rough> out(padded(count), -1);
    k.scaled(line.data(), count, 3, 0.25f, out.data());
    for (size_t i = 0; i < out.size(); ++i) RC_ASSERT(out[i] == (i < count ? (line[i] - 3) * 0.25f : 0));
  }
}

RC_GTEST_PROP(Lanes, SpreadTheirLeast, ()) {
  const std::vector<Rough> line = line_of(lanes, 0);
  for (const Kernels& k : kernels) {
    std::vector<Rough> out(lanes);
    k.spread(line.data(), out.data());
    RC_ASSERT(out == std::vector<Rough>(lanes, *std::ranges::min_element(line)));
  }
}

}  // namespace
}  // namespace hetsynth
