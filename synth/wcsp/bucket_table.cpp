#include "synth/wcsp/bucket_table.h"

#include <algorithm>
#include <array>
#include <functional>

#include "synth/support/function_multiversioning.h"

namespace hetsynth::synth {
namespace {

/// Between two questions whether to go on, in table entries.
constexpr size_t entries_between_stops = 1 << 20;
/// So many costs can be added before the sum may overflow.
constexpr size_t most_added = 32;
static_assert(forbidden <= (Picoseconds(1) << 62) / Picoseconds(most_added + 2));

/// Of `count` tables [x][y] and costs by x: the least sum by y.
HETSYNTH_AVX2_TOO void least_by_column(const Picoseconds* const* tables, size_t count, const Picoseconds* by_row,
                                       size_t rows, size_t columns, Picoseconds* __restrict sums,
                                       Picoseconds* __restrict least) {
  for (size_t y = 0; y < columns; ++y) least[y] = forbidden;
  for (size_t x = 0; x < rows; ++x) {
    if (by_row[x] >= forbidden) continue;
    for (size_t y = 0; y < columns; ++y) sums[y] = by_row[x];
    for (size_t t = 0; t < count; ++t) {
      const Picoseconds* row = tables[t] + x * columns;
      for (size_t y = 0; y < columns; ++y) sums[y] += row[y];
      if (t % most_added == most_added - 1)
        for (size_t y = 0; y < columns; ++y) sums[y] = std::min(sums[y], forbidden);
    }
    for (size_t y = 0; y < columns; ++y) least[y] = std::min(least[y], sums[y]);
  }
}

/// A function with its variables in another order.
Table reordered(const Table& table, const std::vector<int>& sizes, const std::vector<size_t>& strides) {
  Table out(table.size());
  std::vector<int> digits(sizes.size(), 0);
  const Picoseconds* at = table.data();
  for (Picoseconds& entry : out) {
    entry = *at;
    for (size_t d = sizes.size(); d-- > 0;) {
      at += strides[d];
      if (++digits[d] < sizes[d]) break;
      at -= strides[d] * size_t(sizes[d]);
      digits[d] = 0;
    }
  }
  return out;
}

/// The last variable of the scope, y, and the minimised one, x, vary within; the others without.
class BucketTable {
 public:
  BucketTable(int minimised, const std::vector<int>& scope, const std::vector<CostFunction>& functions,
              const std::vector<int>& domains, const TableStore& store)
      : rows_(size_t(domains[size_t(minimised)])) {
    std::vector<int> order = scope;
    columns_ = scope.empty() ? 1 : size_t(domains[size_t(scope.back())]);
    if (!scope.empty()) order.pop_back();
    for (int v : order) sizes_.push_back(domains[size_t(v)]);
    order.push_back(minimised);
    if (!scope.empty()) order.push_back(scope.back());
    copies_.reserve(functions.size());
    for (const CostFunction& f : functions) add(f, order, domains, store);
  }

  bool minimise(Table* out, const StopToken& stop) {
    size_t count = 1;
    for (int size : sizes_) count *= size_t(size);
    out->resize(count * columns_);
    std::vector<int> digits(sizes_.size(), 0);
    std::vector<Picoseconds> by_row(rows_), sums(columns_);
    std::vector<const Picoseconds*> both;
    size_t since_stop = 0;
    for (Picoseconds* least = out->data(); least < out->data() + out->size(); least += columns_) {
      both.clear();
      for (const Operand& operand : of_[both_vary]) both.push_back(operand.at);
      add_up(of_[none_varies], of_[row_varies], &by_row);
      least_by_column(both.data(), both.size(), by_row.data(), rows_, columns_, sums.data(), least);
      for (const Operand& operand : of_[column_varies])
        for (size_t y = 0; y < columns_; ++y) least[y] = synth::add(least[y], operand.at[y]);
      advance(&digits);
      since_stop += rows_ * columns_;
      if (since_stop < entries_between_stops) continue;
      since_stop = 0;
      if (stop.stopped()) return false;
    }
    stop.spend(int64_t(out->size() * rows_));
    return true;
  }

 private:
  struct Operand {
    const Picoseconds* at;
    std::vector<size_t> strides;  ///< by variable that varies without
  };
  /// Which of the variables that vary within a function depends on.
  enum Kind : size_t { none_varies, column_varies, row_varies, both_vary };

  void add(const CostFunction& f, const std::vector<int>& order, const std::vector<int>& domains,
           const TableStore& store) {
    // Of its variables in order: how far their values lie apart in its table.
    std::vector<int> sizes;
    std::vector<size_t> strides;
    std::vector<char> depends(sizes_.size() + 2, 0);
    for (size_t k = 0; k < order.size(); ++k) {
      const auto it = std::ranges::find(f.scope, order[k]);
      if (it == f.scope.end()) continue;
      depends[k] = 1;
      sizes.push_back(domains[size_t(order[k])]);
      strides.push_back(1);
      for (auto after = it + 1; after != f.scope.end(); ++after) strides.back() *= size_t(domains[size_t(*after)]);
    }
    const bool in_order = std::ranges::is_sorted(strides, std::greater<>());
    if (!in_order) copies_.push_back(reordered(store[f.table], sizes, strides));
    const Table& table = in_order ? store[f.table] : copies_.back();
    Operand operand{table.data(), std::vector<size_t>(sizes_.size(), 0)};
    for (size_t k = 0, present = 0, stride = table.size(); k < sizes_.size(); ++k)
      if (depends[k]) operand.strides[k] = stride /= size_t(sizes[present++]);
    const bool row = depends[sizes_.size()], column = depends[sizes_.size() + 1];
    of_[2 * size_t(row) + size_t(column)].push_back(std::move(operand));
  }

  void add_up(const std::vector<Operand>& same, const std::vector<Operand>& by_row,
              std::vector<Picoseconds>* out) const {
    Picoseconds sum = 0;
    for (const Operand& operand : same) sum = synth::add(sum, *operand.at);
    std::ranges::fill(*out, sum);
    for (const Operand& operand : by_row)
      for (size_t x = 0; x < rows_; ++x) (*out)[x] = synth::add((*out)[x], operand.at[x]);
  }

  void advance(std::vector<int>* digits) {
    for (size_t d = digits->size(); d-- > 0;) {
      const bool carry = ++(*digits)[d] == sizes_[d];
      for (auto& operands : of_)
        for (Operand& operand : operands)
          operand.at =
              carry ? operand.at - operand.strides[d] * size_t(sizes_[d] - 1) : operand.at + operand.strides[d];
      if (!carry) return;
      (*digits)[d] = 0;
    }
  }

  size_t rows_, columns_;
  std::vector<int> sizes_;  ///< of the variables that vary without
  std::vector<Table> copies_;
  std::array<std::vector<Operand>, 4> of_;  ///< by kind
};

}  // namespace

bool minimum_of_sum(int minimised, const std::vector<int>& scope, const std::vector<CostFunction>& functions,
                    const std::vector<int>& domains, const TableStore& store, const StopToken& stop, Table* out) {
  return BucketTable(minimised, scope, functions, domains, store).minimise(out, stop);
}

}  // namespace hetsynth::synth
