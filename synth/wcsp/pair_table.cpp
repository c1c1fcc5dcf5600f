#include "synth/wcsp/pair_table.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace hetsynth::synth {
namespace {

/// Classes of equal lines of so many entries each, numbered in the order of first sight; the first of each class.
std::vector<int> classes_of(const Table& lines, size_t count, size_t length, std::vector<size_t>* examples) {
  const auto line = [&](size_t i) { return lines.begin() + ptrdiff_t(i * length); };
  // Open addressing: classes by hash, in the first free slot from where it points to.
  const size_t mask = std::bit_ceil(2 * count + 1) - 1;
  std::vector<int> slots(mask + 1, -1), out;
  out.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    size_t at = SequenceHash().of(&*line(i), length) & mask;
    while (slots[at] >= 0 && !std::equal(line(i), line(i + 1), line((*examples)[size_t(slots[at])])))
      at = (at + 1) & mask;
    if (slots[at] < 0) {
      slots[at] = int(examples->size());
      examples->push_back(i);
    }
    out.push_back(slots[at]);
  }
  return out;
}

/// What is kept of lines of a table, as lines of its other direction.
Table turned(const Table& lines, size_t length, const std::vector<size_t>& kept) {
  Table out(kept.size() * length);
  for (size_t i = 0; i < kept.size(); ++i)
    for (size_t j = 0; j < length; ++j) out[j * kept.size() + i] = lines[kept[i] * length + j];
  return out;
}

[[gnu::always_inline]] inline void lower(const Rough* numbers, Lanes* best) {
  Lanes next;
  std::memcpy(&next, numbers, sizeof next);
  *best = next < *best ? next : *best;
}

}  // namespace

// Minima of several vectors do not wait for each other.
HETSYNTH_AVX2_TOO Rough least_of(const Rough* numbers, size_t count) {
  constexpr size_t vectors = 4;
  Lanes best[vectors];
  for (Lanes& lane : best) lane = Lanes{} + numbers[0];
  size_t i = 0;
  for (; i + vectors * lanes <= count; i += vectors * lanes)
    for (size_t v = 0; v < vectors; ++v) lower(numbers + i + v * lanes, &best[v]);
  for (; i + lanes <= count; i += lanes) lower(numbers + i, &best[0]);
  for (size_t v = 1; v < vectors; ++v) best[0] = best[v] < best[0] ? best[v] : best[0];
  Rough least = best[0][0];
  for (size_t lane = 1; lane < lanes; ++lane) least = std::min(least, best[0][lane]);
  for (; i < count; ++i) least = std::min(least, numbers[i]);
  return least;
}

PairTable::PairTable(const Table& table, int columns, const std::vector<int>& row_values,
                     const std::vector<int>& column_values) {
  Table rows;
  rows.reserve(row_values.size() * column_values.size());
  for (int x : row_values)
    for (int y : column_values) rows.push_back(table[size_t(x) * size_t(columns) + size_t(y)]);
  std::vector<size_t> row_examples, column_examples;
  row_class_ = classes_of(rows, row_values.size(), column_values.size(), &row_examples);
  const Table turned_rows = turned(rows, column_values.size(), row_examples);
  column_class_ = classes_of(turned_rows, column_values.size(), row_examples.size(), &column_examples);
  row_count_ = int(row_examples.size());
  column_count_ = int(column_examples.size());
  const auto cost = [&](size_t x, size_t y) {
    return rough(turned_rows[column_examples[y] * row_examples.size() + x]);
  };
  by_row_.assign(row_examples.size() * padded(size_t(column_count_)), rough_forbidden);
  by_column_.assign(column_examples.size() * padded(size_t(row_count_)), rough_forbidden);
  for (size_t y = 0; y < column_examples.size(); ++y)
    for (size_t x = 0; x < row_examples.size(); ++x)
      by_row_[x * padded(size_t(column_count_)) + y] = by_column_[y * padded(size_t(row_count_)) + x] = cost(x, y);
}

HETSYNTH_AVX2_TOO void PairTable::minimum_plus(bool from_first, const Rough* weights, Rough* out) const {
  synth::minimum_plus(beside(from_first, 0), padded(size_t(class_count(!from_first))), class_count(from_first), weights,
                      out);
}

}  // namespace hetsynth::synth
