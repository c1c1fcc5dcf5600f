// hetsynth_matmul against a plain loop, over layouts, batches, empty extents and accumulation.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "codegen/interface/abi.h"
#include "dsl/ir/type.h"
#include "runtime/rank/half.h"

namespace hetsynth::test {
namespace {

struct Matrix {
  int64_t batch, rows, columns;
  int64_t strides[3];
  std::vector<float> values;
  int64_t first = 0;  ///< place of element 0, 0, 0
  float& at(int64_t b, int64_t r, int64_t c) {
    return values[size_t(first + b * strides[0] + r * strides[1] + c * strides[2])];
  }
};

/// Layouts: rows, columns, rows of a wider buffer, batch inside of the rows (as heads lie in a projection), batch
/// repeated. Then views that library calls do not take as they are.
enum class Kind {
  rows,
  columns,
  wide,
  interleaved,
  repeated,
  spread,  ///< every other column
  reversed_batch,
  reversed_rows,
  reversed_columns,
  reversed,
  repeated_rows,
  repeated_columns,
  sliding,
  overlapping,
};
constexpr int result_kinds = 4;       ///< of results, from `rows` on
constexpr int one_to_one_kinds = 10;  ///< each element has a place of its own
constexpr int kinds = 14;
bool is_one_to_one(Kind kind) { return kind != Kind::repeated && int(kind) < one_to_one_kinds; }

Matrix matrix(int64_t batch, int64_t rows, int64_t columns, Kind kind, uint64_t seed) {
  Matrix m{batch, rows, columns, {rows * columns, columns, 1}, {}};
  if (kind == Kind::columns) m.strides[1] = 1, m.strides[2] = rows;
  if (kind == Kind::wide) m.strides[1] = columns + 3, m.strides[0] = rows * (columns + 3);
  if (kind == Kind::interleaved) m.strides[0] = columns, m.strides[1] = batch * columns;
  if (kind == Kind::repeated) m.strides[0] = 0;
  if (kind == Kind::spread) m.strides[0] *= 2, m.strides[1] *= 2, m.strides[2] *= 2;
  const bool all = kind == Kind::reversed;
  if (all || kind == Kind::reversed_batch) m.first += (batch - 1) * m.strides[0], m.strides[0] *= -1;
  if (all || kind == Kind::reversed_rows) m.first += (rows - 1) * m.strides[1], m.strides[1] *= -1;
  if (all || kind == Kind::reversed_columns) m.first += (columns - 1) * m.strides[2], m.strides[2] *= -1;
  if (kind == Kind::repeated_rows) m.strides[1] = 0;
  if (kind == Kind::repeated_columns) m.strides[2] = 0;
  if (kind == Kind::sliding) m.strides[1] = 1;
  if (kind == Kind::overlapping) m.strides[1] = (columns + 1) / 2;
  m.first = std::max<int64_t>(m.first, 0);
  m.values.resize(size_t(2 * batch * rows * (columns + 3) + columns + 1));
  std::mt19937_64 generator(seed);
  for (float& v : m.values) v = std::uniform_real_distribution<float>(-1, 1)(generator);
  return m;
}

/// The values as numbers of 16 bits.
template <class Half>
std::vector<uint16_t> halved(Matrix& m) {
  std::vector<uint16_t> out;
  for (float& v : m.values) {
    const Half half(v);
    v = half;
    out.push_back(half.bits);
  }
  return out;
}
std::vector<uint16_t> halved(Matrix& m, DType type) { return type == DType::bf16 ? halved<Bf16>(m) : halved<Fp16>(m); }

void expect_product(int64_t batch, int64_t m, int64_t n, int64_t k, Kind a_kind, Kind w_kind, Kind c_kind,
                    bool accumulate, DType type = DType::f32) {
  Matrix a = matrix(batch, m, k, a_kind, 1), w = matrix(batch, k, n, w_kind, 2), c = matrix(batch, m, n, c_kind, 3);
  std::vector<uint16_t> short_a, short_w;
  if (is_half(type)) short_a = halved(a, type), short_w = halved(w, type);
  Matrix wanted = c;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = accumulate ? c.at(b, i, j) : 0;
        for (int64_t l = 0; l < k; ++l) sum += double(a.at(b, i, l)) * w.at(b, l, j);
        wanted.at(b, i, j) = float(sum);
      }
  const auto multiply = type == DType::bf16 ? hetsynth_matmul_bf16 : hetsynth_matmul_fp16;
  if (is_half(type))
    multiply(batch, m, n, k, short_a.data() + a.first, a.strides[0], a.strides[1], a.strides[2],
             short_w.data() + w.first, w.strides[0], w.strides[1], w.strides[2], c.values.data() + c.first,
             c.strides[0], c.strides[1], c.strides[2], accumulate);
  else
    hetsynth_matmul(batch, m, n, k, a.values.data() + a.first, a.strides[0], a.strides[1], a.strides[2],
                    w.values.data() + w.first, w.strides[0], w.strides[1], w.strides[2], c.values.data() + c.first,
                    c.strides[0], c.strides[1], c.strides[2], accumulate);
  // Terms are below 1: k + 1 additions, each rounded by at most half a unit of a sum of at most k + 1.
  double bound = double((k + 1) * (k + 2)) * 0x1p-24;
  for (size_t i = 0; i < c.values.size(); ++i)
    ASSERT_NEAR(c.values[i], wanted.values[i], bound)
        << "element " << i << " of the buffer: elements between rows stay as they were";
}

TEST(Matmul, EveryPairOfLayouts) {
  for (Kind a : {Kind::rows, Kind::columns, Kind::wide, Kind::interleaved, Kind::repeated})
    for (Kind w : {Kind::rows, Kind::columns, Kind::wide, Kind::interleaved, Kind::repeated})
      for (Kind c : {Kind::rows, Kind::columns, Kind::wide, Kind::interleaved})
        for (bool accumulate : {false, true}) {
          expect_product(3, 5, 7, 4, a, w, c, accumulate);
          expect_product(1, 17, 33, 20, a, w, c, accumulate);
        }
}

/// The operands are exact, sums are those of float32: the same bound.
TEST(Matmul, OfNumbersOf16Bits) {
  for (DType type : {DType::bf16, DType::fp16})
    for (Kind a : {Kind::rows, Kind::columns, Kind::wide, Kind::interleaved, Kind::repeated})
      for (Kind w : {Kind::rows, Kind::columns, Kind::repeated})
        for (bool accumulate : {false, true}) {
          expect_product(3, 5, 7, 4, a, w, Kind::rows, accumulate, type);
          expect_product(1, 17, 33, 20, a, w, Kind::columns, accumulate, type);
          expect_product(2, 1, 4, 0, a, w, Kind::rows, accumulate, type);
        }
}

TEST(Matmul, ExtentsOfOneAndNothing) {
  for (int64_t m : {0, 1, 4})
    for (int64_t n : {0, 1, 4})
      for (int64_t k : {0, 1, 4})
        for (int64_t batch : {0, 1, 2})
          for (bool accumulate : {false, true})
            for (Kind kind : {Kind::rows, Kind::columns, Kind::interleaved})
              expect_product(batch, m, n, k, kind, kind, kind, accumulate);
}

RC_GTEST_PROP(Matmul, AnySizesAndLayouts, ()) {
  auto size = [](int most) { return int64_t(*rc::gen::inRange(1, most)); };
  auto kind = [](int count) { return Kind(*rc::gen::inRange(0, count)); };
  expect_product(size(4), size(40), size(40), size(40), kind(5), kind(5), kind(result_kinds),
                 *rc::gen::arbitrary<bool>());
  RC_ASSERT(!::testing::Test::HasFailure());
}

/// What strides can express: views of other tensors are handed to products as they lie.
RC_GTEST_PROP(Matmul, AnyViews, ()) {
  auto size = [](int most) { return int64_t(*rc::gen::inRange(1, most)); };
  auto kind = [] { return Kind(*rc::gen::inRange(0, kinds)); };
  const Kind c =
      *rc::gen::suchThat(rc::gen::map(rc::gen::inRange(0, kinds), [](int k) { return Kind(k); }), is_one_to_one);
  expect_product(size(4), size(12), size(12), size(12), kind(), kind(), c, *rc::gen::arbitrary<bool>(),
                 *rc::gen::element(DType::f32, DType::bf16, DType::fp16));
  RC_ASSERT(!::testing::Test::HasFailure());
}

}  // namespace
}  // namespace hetsynth::test
