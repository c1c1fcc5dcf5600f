// The matrix product generated programs call, through oneDNN.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/interface/abi.h"
#include "dsl/ir/type.h"
#include "runtime/rank/half.h"
#include "runtime/rank/left_out.h"
#include "runtime/rank/openmp.h"

namespace hetsynth {
namespace {

using dnnl::memory;

memory::data_type data_type(DType type) {
  return type == DType::bf16   ? memory::data_type::bf16
         : type == DType::fp16 ? memory::data_type::f16
                               : memory::data_type::f32;
}

/// Everything a primitive depends on: extents, strides, whether it adds to the result, what operands are.
using ProductKey = std::array<int64_t, 15>;

struct Product {
  dnnl::matmul primitive;
  memory a, w, c;
};

/// A thread's primitives: ranks are threads, and oneDNN's scratch memory belongs to a primitive.
class ProductCache {
 public:
  Product& get(const ProductKey& key) {
    auto found = products_.find(key);
    return found != products_.end() ? found->second : products_.emplace(key, make(key)).first->second;
  }
  dnnl::stream& stream() { return stream_; }

 private:
  Product make(const ProductKey& key) {
    const auto [batch, m, n, k, a0, a1, a2, w0, w1, w2, c0, c1, c2, accumulate, operands] = key;
    bool batched = batch > 1;
    const auto type = data_type(DType(operands));
    memory::desc a = describe(type, batched, {batch, m, k}, {a0, a1, a2});
    memory::desc w = describe(type, batched, {w0 == 0 ? 1 : batch, k, n}, {w0, w1, w2});
    if (a0 == 0) a = describe(type, batched, {1, m, k}, {a0, a1, a2});
    memory::desc c = describe(memory::data_type::f32, batched, {batch, m, n}, {c0, c1, c2});
    dnnl::primitive_attr attributes;
    if (accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    dnnl::matmul::primitive_desc description({a, w, c}, attributes, engine_);
    return {dnnl::matmul(description), memory(a, engine_, nullptr), memory(w, engine_, nullptr),
            memory(c, engine_, nullptr)};
  }

  /// Strides of dimensions of extent 1 are never used; oneDNN wants them plausible all the same.
  static memory::desc describe(memory::data_type type, bool batched, std::array<int64_t, 3> extents,
                               std::array<int64_t, 3> strides) {
    bool columns_inside = strides[2] == 1 || extents[2] == 1;
    int64_t rows = extents[1], columns = extents[2];
    if (rows == 1 && columns == 1)
      strides[1] = strides[2] = 1;
    else if (columns == 1)
      strides[2] = strides[1] == 1 ? rows : 1;
    else if (rows == 1)
      strides[1] = columns_inside ? columns : 1;
    if (extents[0] == 1) strides[0] = rows * columns;
    if (!batched) return {{rows, columns}, type, memory::dims{strides[1], strides[2]}};
    return {{extents[0], rows, columns}, type, memory::dims{strides[0], strides[1], strides[2]}};
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<ProductKey, Product> products_;
};

void fill_zero(int64_t batch, int64_t m, int64_t n, float* c, int64_t c_batch, int64_t c_row, int64_t c_column) {
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) c[b * c_batch + i * c_row + j * c_column] = 0;
}

/// Some 100 microseconds of a core.
constexpr double small_product_flops = 16e6;

/// A matrix operand with its strides in elements.
struct MatrixOperand {
  const void* data;
  int64_t batch, row, column;
};

/// Whether oneDNN can describe such a tensor: no dimension runs backwards or stands still, and none reaches into the
/// next. Views of other tensors (reversed, repeated, overlapping windows) may do all of that.
bool is_plain(const std::array<int64_t, 3>& extents, const std::array<int64_t, 3>& strides) {
  std::array<size_t, 3> order{0, 1, 2};  // by stride
  std::ranges::sort(order, {}, [&](size_t d) { return strides[d]; });
  int64_t reached = 1;
  for (const size_t d : order) {
    if (extents[d] == 1) continue;
    if (strides[d] < reached) return false;
    reached = strides[d] * extents[d];
  }
  return true;
}

/// Calls visit(dense, strided) with the places of every element in a dense copy and in the tensor.
template <class Visit>
void each_place(const std::array<int64_t, 3>& extents, const std::array<int64_t, 3>& strides, const Visit& visit) {
  int64_t dense = 0;
  for (int64_t b = 0; b < extents[0]; ++b)
    for (int64_t i = 0; i < extents[1]; ++i)
      for (int64_t j = 0; j < extents[2]; ++j) visit(dense++, b * strides[0] + i * strides[1] + j * strides[2]);
}

/// A dense copy of an operand; a batch that repeats one matrix stays one matrix.
template <class Element>
MatrixOperand packed(const MatrixOperand& x, int64_t batch, int64_t rows, int64_t columns, std::vector<Element>& copy) {
  const int64_t matrices = x.batch == 0 ? 1 : batch;
  copy.resize(static_cast<size_t>(matrices * rows * columns));
  const auto* from = static_cast<const Element*>(x.data);
  each_place({matrices, rows, columns}, {x.batch, x.row, x.column},
             [&](int64_t dense, int64_t at) { copy[static_cast<size_t>(dense)] = from[at]; });
  return {copy.data(), x.batch == 0 ? 0 : rows * columns, columns, 1};
}

/// Memory for the copy of an operand.
struct Copy {
  std::vector<float> floats;
  std::vector<uint16_t> halves;
};

/// The operand as oneDNN takes it: itself where that is possible.
MatrixOperand plain(const MatrixOperand& x, int64_t batch, int64_t rows, int64_t columns, DType type, Copy& copy) {
  if (is_plain({x.batch == 0 ? 1 : batch, rows, columns}, {x.batch, x.row, x.column})) return x;
  return type == DType::f32 ? packed(x, batch, rows, columns, copy.floats)
                            : packed(x, batch, rows, columns, copy.halves);
}

void multiply_plain(int64_t batch, int64_t m, int64_t n, int64_t k, MatrixOperand a, MatrixOperand w, float* c,
                    int64_t c_batch, int64_t c_row, int64_t c_column, bool accumulate, DType type) {
  if (batch == 0 || m == 0 || n == 0) return;
  if (k == 0) {
    if (!accumulate) fill_zero(batch, m, n, c, c_batch, c_row, c_column);
    return;
  }
  // oneDNN cannot repeat both operands over a batch.
  if (batch > 1 && a.batch == 0 && w.batch == 0) {
    for (int64_t b = 0; b < batch; ++b)
      multiply_plain(1, m, n, k, a, w, c + b * c_batch, 0, c_row, c_column, accumulate, type);
    return;
  }
  // oneDNN writes rows: a result stored by columns is the transposed product.
  if (c_column != 1 && c_row == 1) {
    std::swap(m, n);
    std::swap(a, w);
    std::swap(a.row, a.column);
    std::swap(w.row, w.column);
    std::swap(c_row, c_column);
  }
  // Made and run with the same number of threads: a primitive is planned for it.
  const AloneOnThisThread small(2.0 * double(batch * m) * double(n * k) < small_product_flops);
  thread_local ProductCache cache;
  Product& product = cache.get({batch, m, n, k, a.batch, a.row, a.column, w.batch, w.row, w.column, c_batch, c_row,
                                c_column, accumulate, int64_t(type)});
  product.a.set_data_handle(const_cast<void*>(a.data));
  product.w.set_data_handle(const_cast<void*>(w.data));
  product.c.set_data_handle(c);
  product.primitive.execute(cache.stream(),
                            {{DNNL_ARG_SRC, product.a}, {DNNL_ARG_WEIGHTS, product.w}, {DNNL_ARG_DST, product.c}});
  cache.stream().wait();
}

void multiply(int64_t batch, int64_t m, int64_t n, int64_t k, MatrixOperand a, MatrixOperand w, float* c,
              int64_t c_batch, int64_t c_row, int64_t c_column, bool accumulate, DType type) {
  if (batch == 0 || m == 0 || n == 0) return;
  thread_local Copy copy_of_a, copy_of_w;
  thread_local std::vector<float> result;
  a = plain(a, batch, m, k, type, copy_of_a);
  w = plain(w, batch, k, n, type, copy_of_w);
  const std::array<int64_t, 3> extents{batch, m, n}, strides{c_batch, c_row, c_column};
  const bool by_rows_or_columns = c_column == 1 || c_row == 1 || n == 1 || m == 1;
  if (by_rows_or_columns && is_plain(extents, strides))
    return multiply_plain(batch, m, n, k, a, w, c, c_batch, c_row, c_column, accumulate, type);
  result.resize(static_cast<size_t>(batch * m * n));
  if (accumulate)
    each_place(extents, strides, [&](int64_t dense, int64_t at) { result[static_cast<size_t>(dense)] = c[at]; });
  multiply_plain(batch, m, n, k, a, w, result.data(), m * n, n, 1, accumulate, type);
  each_place(extents, strides, [&](int64_t dense, int64_t at) { c[at] = result[static_cast<size_t>(dense)]; });
}

/// Whether oneDNN multiplies such operands here, and by more than its plain loops: it does so on processors with
/// instructions for them alone (bf16: AVX-512 or AMX; fp16: AVX-512 FP16, and oneDNN 3).
bool multiplies(DType type) {
  const auto able = [](DType operands) {
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    const auto desc = [](memory::data_type data) { return memory::desc({4, 4}, data, memory::dims{4, 1}); };
    try {
      const dnnl::matmul::primitive_desc description(
          {desc(data_type(operands)), desc(data_type(operands)), desc(memory::data_type::f32)}, engine);
      return !std::string_view(description.impl_info_str()).starts_with("ref");
    } catch (const dnnl::error&) {
      return false;
    }
  };
  static const bool bf16 = able(DType::bf16), fp16 = able(DType::fp16);
  return type == DType::bf16 ? bf16 : type == DType::fp16 ? fp16 : true;
}

/// An operand as floats, densely in `out`.
template <class Half>
MatrixOperand widened(const MatrixOperand& x, int64_t batch, int64_t rows, int64_t columns, std::vector<float>& out) {
  std::vector<Half> halves;
  const MatrixOperand dense = packed(x, batch, rows, columns, halves);
  out.assign(halves.begin(), halves.end());
  return {out.data(), dense.batch, dense.row, dense.column};
}

/// The product of operands of 16 bits, by oneDNN or of operands that are widened first where it cannot.
template <class Half>
void multiply_halves(int64_t batch, int64_t m, int64_t n, int64_t k, MatrixOperand a, MatrixOperand w, float* c,
                     int64_t c_batch, int64_t c_row, int64_t c_column, bool accumulate, DType type) {
  if (multiplies(type) || batch == 0 || m == 0 || n == 0 || k == 0)
    return multiply(batch, m, n, k, a, w, c, c_batch, c_row, c_column, accumulate, type);
  std::vector<float> wide_a, wide_w;
  a = widened<Half>(a, batch, m, k, wide_a);
  w = widened<Half>(w, batch, k, n, wide_w);
  multiply(batch, m, n, k, a, w, c, c_batch, c_row, c_column, accumulate, DType::f32);
}

void multiply(const MatrixProduct& p) {
  const MatrixOperand a{p.a, p.a_batch, p.a_row, p.a_column}, w{p.w, p.w_batch, p.w_row, p.w_column};
  const auto by = [&](const auto& function) {
    function(p.batch, p.m, p.n, p.k, a, w, p.c, p.c_batch, p.c_row, p.c_column, p.accumulate, p.operands);
  };
  if (p.operands == DType::f32)
    by([](auto... all) { multiply(all...); });
  else if (p.operands == DType::bf16)
    by(multiply_halves<Bf16>);
  else
    by(multiply_halves<Fp16>);
}

/// All of it, or what the rank of this thread keeps of it.
void multiply_kept(const MatrixProduct& product) {
  if (LeftOutColumns* columns = LeftOutColumns::of_this_thread())
    columns->multiply(product, [](const MatrixProduct& kept) { multiply(kept); });
  else
    multiply(product);
}

}  // namespace
}  // namespace hetsynth

extern "C" void hetsynth_matmul(int64_t batch, int64_t m, int64_t n, int64_t k, const float* a, int64_t a_batch,
                                int64_t a_row, int64_t a_column, const float* w, int64_t w_batch, int64_t w_row,
                                int64_t w_column, float* c, int64_t c_batch, int64_t c_row, int64_t c_column,
                                int accumulate) {
  hetsynth::multiply_kept({batch, m, n, k, a, a_batch, a_row, a_column, w, w_batch, w_row, w_column, c, c_batch, c_row,
                           c_column, accumulate != 0, hetsynth::DType::f32});
}

extern "C" void hetsynth_matmul_bf16(int64_t batch, int64_t m, int64_t n, int64_t k, const void* a, int64_t a_batch,
                                     int64_t a_row, int64_t a_column, const void* w, int64_t w_batch, int64_t w_row,
                                     int64_t w_column, float* c, int64_t c_batch, int64_t c_row, int64_t c_column,
                                     int accumulate) {
  hetsynth::multiply_kept({batch, m, n, k, a, a_batch, a_row, a_column, w, w_batch, w_row, w_column, c, c_batch, c_row,
                           c_column, accumulate != 0, hetsynth::DType::bf16});
}

extern "C" void hetsynth_matmul_fp16(int64_t batch, int64_t m, int64_t n, int64_t k, const void* a, int64_t a_batch,
                                     int64_t a_row, int64_t a_column, const void* w, int64_t w_batch, int64_t w_row,
                                     int64_t w_column, float* c, int64_t c_batch, int64_t c_row, int64_t c_column,
                                     int accumulate) {
  hetsynth::multiply_kept({batch, m, n, k, a, a_batch, a_row, a_column, w, w_batch, w_row, w_column, c, c_batch, c_row,
                           c_column, accumulate != 0, hetsynth::DType::fp16});
}
