#include "runtime/rank/left_out.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "runtime/rank/half.h"
#include "runtime/rank/throttle.h"

namespace hetsynth {
namespace {

thread_local LeftOutColumns* current = nullptr;

/// A set has so many groups of columns at most: parts are left out to within a percent or two, and what is copied lies
/// in longer pieces.
constexpr int64_t most_groups = 64;
/// Steps in which weights change before it is known which columns are left out first, and steps after which that is
/// found anew. What is left out stays so: other columns every 10 steps cost up to 2.5 times as much (docs/runtime.md).
constexpr int64_t steps_between_two_looks = 10, steps_between_orders = 200;

int64_t extent_of(const ColumnProduct& place, const MatrixProduct& p) {
  return place.dim == ColumnProduct::Dim::row ? p.m : place.dim == ColumnProduct::Dim::column ? p.n : p.k;
}

double flops_of(const MatrixProduct& p) { return 2.0 * double(p.batch * p.m) * double(p.n * p.k); }

/// A matrix of which some rows are taken, or some columns: an index runs over what is taken, another over all else.
struct Strided {
  int64_t batches, batch;  ///< how many matrices, and the elements between them
  int64_t taken;           ///< elements between neighbours of which some are taken
  int64_t others, other;   ///< how many others there are, and the elements between them
};

/// Neighbours among the indices that are kept.
struct Piece {
  int64_t first, count;
};

std::vector<Piece> pieces_of(const std::vector<int64_t>& kept) {
  std::vector<Piece> out;
  for (const int64_t index : kept)
    if (!out.empty() && out.back().first + out.back().count == index)
      ++out.back().count;
    else
      out.push_back({index, 1});
  return out;
}

/// Calls copy(packed place, place, count, stride) for pieces of what is taken: `count` elements that lie so far apart.
/// Gives the strides of what is packed, whose inner index is that of the matrix.
template <class Copy>
Strided each_piece(const Strided& matrix, const std::vector<int64_t>& kept, const Copy& copy) {
  const auto count = int64_t(kept.size());
  const bool others_inside = matrix.other <= matrix.taken;
  const Strided packed{matrix.batches, count * matrix.others, others_inside ? matrix.others : 1, matrix.others,
                       others_inside ? 1 : count};
  const std::vector<Piece> pieces = pieces_of(kept);
  for (int64_t b = 0; b < matrix.batches; ++b) {
    int64_t to = b * packed.batch;
    if (others_inside) {
      for (const int64_t index : kept) {
        copy(to, b * matrix.batch + index * matrix.taken, matrix.others, matrix.other);
        to += matrix.others;
      }
      continue;
    }
    for (int64_t o = 0; o < matrix.others; ++o)
      for (const Piece& piece : pieces) {
        copy(to, b * matrix.batch + o * matrix.other + piece.first * matrix.taken, piece.count, matrix.taken);
        to += piece.count;
      }
  }
  return packed;
}

/// Copies what is kept of an operand, and gives the strides of the copy.
template <class Element>
Strided gather(const Element* from, const Strided& matrix, const std::vector<int64_t>& kept, std::vector<Element>& to) {
  to.resize(size_t(matrix.batches * matrix.others) * kept.size());
  return each_piece(matrix, kept, [&](int64_t at, int64_t place, int64_t count, int64_t stride) {
    Element* const out = to.data() + at;
    if (stride == 1)  // mostly a few elements, for which no function is called
      for (int64_t i = 0; i < count; ++i) out[i] = from[place + i];
    else
      for (int64_t i = 0; i < count; ++i) out[i] = from[place + i * stride];
  });
}

/// Memory for copies of one call.
struct Copies {
  std::vector<float> a, w, c;
  std::vector<uint16_t> half_a, half_w;
};

Copies& copies_of_thread() {
  thread_local Copies copies;
  return copies;
}

Strided gather(const void* from, DType type, const Strided& matrix, const std::vector<int64_t>& kept,
               std::vector<float>& floats, std::vector<uint16_t>& halves, const void*& to) {
  Strided out{};
  if (type == DType::f32) {
    out = gather(static_cast<const float*>(from), matrix, kept, floats);
    to = floats.data();
  } else {
    out = gather(static_cast<const uint16_t*>(from), matrix, kept, halves);
    to = halves.data();
  }
  return out;
}

/// The product of the terms that are kept.
MatrixProduct with_terms(const MatrixProduct& p, const std::vector<int64_t>& kept) {
  Copies& copies = copies_of_thread();
  MatrixProduct out = p;
  out.k = int64_t(kept.size());
  const Strided a = gather(p.a, p.operands, {p.a_batch == 0 ? 1 : p.batch, p.a_batch, p.a_column, p.m, p.a_row}, kept,
                           copies.a, copies.half_a, out.a);
  out.a_batch = p.a_batch == 0 ? 0 : a.batch;
  out.a_column = a.taken;
  out.a_row = a.other;
  const Strided w = gather(p.w, p.operands, {p.w_batch == 0 ? 1 : p.batch, p.w_batch, p.w_row, p.n, p.w_column}, kept,
                           copies.w, copies.half_w, out.w);
  out.w_batch = p.w_batch == 0 ? 0 : w.batch;
  out.w_row = w.taken;
  out.w_column = w.other;
  return out;
}

/// The rows that are kept, in memory of their own.
MatrixProduct with_rows(const MatrixProduct& p, const std::vector<int64_t>& kept) {
  Copies& copies = copies_of_thread();
  MatrixProduct out = p;
  out.m = int64_t(kept.size());
  const Strided a = gather(p.a, p.operands, {p.a_batch == 0 ? 1 : p.batch, p.a_batch, p.a_row, p.k, p.a_column}, kept,
                           copies.a, copies.half_a, out.a);
  out.a_batch = p.a_batch == 0 ? 0 : a.batch;
  out.a_row = a.taken;
  out.a_column = a.other;
  copies.c.resize(size_t(p.batch * p.n) * kept.size());
  out.c = copies.c.data();
  const bool by_rows = p.c_column <= p.c_row;
  out.c_batch = out.m * p.n;
  out.c_row = by_rows ? p.n : 1;
  out.c_column = by_rows ? 1 : out.m;
  out.accumulate = false;
  return out;
}

/// Puts the rows that are kept where they belong; others are 0.
void put_rows(const MatrixProduct& p, const std::vector<int64_t>& kept, const std::vector<float>& rows) {
  const Strided result{p.batch, p.c_batch, p.c_row, p.n, p.c_column};
  if (!p.accumulate) {
    std::vector<int64_t> left_out;
    for (int64_t row = 0, at = 0; row < p.m; ++row)
      if (at < int64_t(kept.size()) && kept[size_t(at)] == row)
        ++at;
      else
        left_out.push_back(row);
    each_piece(result, left_out, [&](int64_t, int64_t place, int64_t count, int64_t stride) {
      for (int64_t i = 0; i < count; ++i) p.c[place + i * stride] = 0;
    });
  }
  each_piece(result, kept, [&](int64_t at, int64_t place, int64_t count, int64_t stride) {
    float* const element = p.c + place;
    const float* const row = rows.data() + at;
    if (p.accumulate)
      for (int64_t i = 0; i < count; ++i) element[i * stride] += row[i];
    else
      for (int64_t i = 0; i < count; ++i) element[i * stride] = row[i];
  });
}

float value_at(const MatrixProduct& p, const void* from, int64_t at) {
  if (p.operands == DType::f32) return static_cast<const float*>(from)[at];
  return p.operands == DType::bf16 ? float(static_cast<const Bf16*>(from)[at])
                                   : float(static_cast<const Fp16*>(from)[at]);
}

}  // namespace

MatrixProduct transposed(const MatrixProduct& p) {
  return {p.batch,   p.n,        p.m,     p.k, p.w,       p.w_batch,  p.w_column, p.w_row,      p.a,
          p.a_batch, p.a_column, p.a_row, p.c, p.c_batch, p.c_column, p.c_row,    p.accumulate, p.operands};
}

LeftOutColumns::LeftOutColumns(const DeviceProgram& program)
    : products_(program.column_products),
      by_mark_(program.marks.size(), -1),
      sets_(program.column_sets.size()),
      kept_(products_.size()) {
  std::vector<int64_t> ends(sets_.size(), -1);
  for (size_t i = 0; i < products_.size(); ++i) {
    const ColumnProduct& place = products_[i];
    by_mark_[size_t(place.mark)] = int(i);
    Set& set = sets_[size_t(place.set)];
    int64_t& end = ends[size_t(place.set)];
    set.first = end < 0 ? place.first : std::min(set.first, place.first);
    end = std::max(end, place.first + place.count);
  }
  for (size_t s = 0; s < sets_.size(); ++s) {
    const int64_t columns = std::max<int64_t>(0, ends[s] - sets_[s].first);
    sets_[s].group = std::max<int64_t>(1, (columns + most_groups - 1) / most_groups);
    const auto groups = size_t((columns + sets_[s].group - 1) / sets_[s].group);
    sets_[s].left_out.assign(groups, false);
    sets_[s].change.assign(groups, 0);
    sets_[s].order.resize(groups);
    std::iota(sets_[s].order.begin(), sets_[s].order.end(), size_t(0));
  }
}

LeftOutColumns* LeftOutColumns::of_this_thread() { return current; }

bool LeftOutColumns::keeps(int set, int64_t column) const {
  const Set& columns = sets_[size_t(set)];
  return !columns.left_out[size_t((column - columns.first) / columns.group)];
}

void LeftOutColumns::begin_step() {
  if (!is_looking()) {
    looked_.clear();
    phase_ = 0;
  }
  looks_ = is_looking() && (phase_ == 0 || phase_ == steps_between_two_looks);
  if (known_ && part_ != chosen_part_) choose();
  product_ = -1;
  current = this;
}

void LeftOutColumns::end_step() {
  current = nullptr;
  if (!is_looking()) return;
  if (phase_ == steps_between_two_looks) order_by_change();
  phase_ = (phase_ + 1) % steps_between_orders;
}

void LeftOutColumns::order_by_change() {
  for (Set& set : sets_) {
    std::ranges::stable_sort(set.order, {}, [&](size_t group) { return set.change[group]; });
    std::ranges::fill(set.change, 0);
  }
  looked_.clear();
  known_ = true;
}

void LeftOutColumns::choose() {
  chosen_part_ = part_;
  for (Set& set : sets_) {
    const size_t groups = set.order.size();
    // One is kept of each set.
    const auto count = std::min(size_t(std::lround(part_ * double(groups))), groups - std::min<size_t>(groups, 1));
    set.left_out.assign(groups, false);
    for (size_t i = 0; i < count; ++i) set.left_out[set.order[i]] = true;
  }
  for (std::vector<int64_t>& kept : kept_) kept.clear();
}

const std::vector<int64_t>& LeftOutColumns::kept(int product, int64_t extent) {
  std::vector<int64_t>& out = kept_[size_t(product)];
  if (!out.empty()) return out;
  const ColumnProduct& place = products_[size_t(product)];
  for (int64_t i = 0; i < extent; ++i)
    if (!sets_[size_t(place.set)].left_out[group_of(place, i)]) out.push_back(i);
  return out;
}

size_t LeftOutColumns::group_of(const ColumnProduct& place, int64_t index) const {
  const Set& set = sets_[size_t(place.set)];
  return size_t((place.first + index / place.inner % place.count - set.first) / set.group);
}

void LeftOutColumns::look_at_weights(const ColumnProduct& place, const MatrixProduct& p) {
  const bool first = place.weight == 0;
  const void* const weight = first ? p.a : p.w;
  Looked& looked = looked_[{product_, weight}];
  if (looked.phase == phase_) return;  // it stands in a loop, and was looked at in an earlier turn
  const bool is_new = looked.phase < 0;
  looked.phase = phase_;
  const int64_t batch = first ? p.a_batch : p.w_batch, column = first ? p.a_column : p.w_row,
                others = first ? p.m : p.n, other = first ? p.a_row : p.w_column;
  const int64_t batches = batch == 0 ? 1 : p.batch;
  looked.values.resize(size_t(batches * p.k * others));
  std::vector<double>& change = sets_[size_t(place.set)].change;
  float* before = looked.values.data();
  for (int64_t b = 0; b < batches; ++b)
    for (int64_t k = 0; k < p.k; ++k) {
      double sum = 0;
      for (int64_t o = 0; o < others; ++o, ++before) {
        const float now = value_at(p, weight, b * batch + k * column + o * other);
        sum += std::abs(double(now) - double(*before));
        *before = now;
      }
      if (!is_new) change[group_of(place, k)] += sum;
    }
}

void LeftOutColumns::multiply(const MatrixProduct& p, const Multiply& multiply) {
  if (product_ < 0) return multiply(p);
  const ColumnProduct& place = products_[size_t(product_)];
  const double start = wall_seconds();
  if (looks_ && place.sums_forward) look_at_weights(place, p);
  const int64_t extent = extent_of(place, p);
  const auto timed = [&](const MatrixProduct& product) {
    const double began = wall_seconds();
    multiply(product);
    work_.product_seconds += wall_seconds() - began;
    work_.packing_seconds -= wall_seconds() - began;
  };
  const std::vector<int64_t>& columns = kept(product_, extent);
  const auto count = int64_t(columns.size());
  work_.flops += flops_of(p);
  if (count == extent) {
    timed(p);
  } else {
    work_.left_out_flops += flops_of(p) * double(extent - count) / double(extent);
    if (place.dim == ColumnProduct::Dim::sum) {
      timed(with_terms(p, columns));
    } else {
      const MatrixProduct whole = place.dim == ColumnProduct::Dim::row ? p : transposed(p);
      timed(with_rows(whole, columns));
      put_rows(whole, columns, copies_of_thread().c);
    }
  }
  work_.packing_seconds += wall_seconds() - start;
}

}  // namespace hetsynth
