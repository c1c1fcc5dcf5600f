#include "synth/pair_table.h"

#include <algorithm>
#include <cstring>

namespace hetsynth::synth {
namespace {

/// Classes of equal lines; `lines`, `others`: values, with their strides in the table.
std::vector<int> classes_of(const Table& table, const std::vector<int>& lines, const std::vector<int>& others,
                            size_t stride, size_t step, std::vector<int>* examples) {
  Interner<Picoseconds> seen;
  std::vector<int> out;
  std::vector<Picoseconds> line(others.size());
  for (int value : lines) {
    for (size_t j = 0; j < others.size(); ++j) line[j] = table[size_t(value) * stride + size_t(others[j]) * step];
    out.push_back(seen.number(line));
    if (out.back() == int(examples->size())) examples->push_back(value);
  }
  return out;
}

}  // namespace

PairTable::PairTable(const Table& table, int columns, const std::vector<int>& row_values,
                     const std::vector<int>& column_values) {
  row_class_ = classes_of(table, row_values, column_values, size_t(columns), 1, &row_example_);
  column_class_ = classes_of(table, column_values, row_values, 1, size_t(columns), &column_example_);
  fill(table, row_example_, column_example_, size_t(columns), 1, &by_row_);
  fill(table, column_example_, row_example_, 1, size_t(columns), &by_column_);
}

void PairTable::fill(const Table& table, const std::vector<int>& rows, const std::vector<int>& columns, size_t stride,
                     size_t step, std::vector<Rough>* out) const {
  out->reserve(rows.size() * padded(int(columns.size())));
  for (int x : rows) {
    for (int y : columns) out->push_back(rough(table[size_t(x) * stride + size_t(y) * step]));
    out->resize((out->size() + lanes - 1) / lanes * lanes, rough_forbidden);
  }
}

// Sums and minima of single entries are the same in vectors of any width: so are plans, on any machine.
__attribute__((target_clones("avx2", "default"))) void PairTable::minimum_plus(bool from_first, const Rough* weights,
                                                                               Rough* out) const {
  typedef Rough Lanes __attribute__((vector_size(lanes * sizeof(Rough))));
  const size_t columns = padded(class_count(!from_first));
  const int rows = class_count(from_first);
  const Rough* row = beside(from_first, 0);
  for (size_t y = 0; y < columns; ++y) out[y] = 4 * rough_forbidden;
  for (int x = 0; x < rows; ++x, row += columns) {
    const Rough weight = weights[x];
    for (size_t y = 0; y < columns; y += lanes) {
      Lanes costs, best;
      std::memcpy(&costs, row + y, sizeof costs);
      std::memcpy(&best, out + y, sizeof best);
      costs += weight;
      best = costs < best ? costs : best;
      std::memcpy(out + y, &best, sizeof best);
    }
  }
}

}  // namespace hetsynth::synth
