// The matrix product generated programs call, through oneDNN.
#include <array>
#include <cstring>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>

#include "codegen/abi.h"

namespace hetsynth {
namespace {

using dnnl::memory;

/// Everything a primitive depends on: extents, strides, whether it adds to the result.
using ProductKey = std::array<int64_t, 14>;

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
    const auto [batch, m, n, k, a0, a1, a2, w0, w1, w2, c0, c1, c2, accumulate] = key;
    bool batched = batch > 1;
    memory::desc a = describe(batched, {batch, m, k}, {a0, a1, a2});
    memory::desc w = describe(batched, {w0 == 0 ? 1 : batch, k, n}, {w0, w1, w2});
    if (a0 == 0) a = describe(batched, {1, m, k}, {a0, a1, a2});
    memory::desc c = describe(batched, {batch, m, n}, {c0, c1, c2});
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
  static memory::desc describe(bool batched, std::array<int64_t, 3> extents, std::array<int64_t, 3> strides) {
    bool columns_inside = strides[2] == 1 || extents[2] == 1;
    int64_t rows = extents[1], columns = extents[2];
    if (rows == 1 && columns == 1)
      strides[1] = strides[2] = 1;
    else if (columns == 1)
      strides[2] = strides[1] == 1 ? rows : 1;
    else if (rows == 1)
      strides[1] = columns_inside ? columns : 1;
    if (extents[0] == 1) strides[0] = rows * columns;
    if (!batched) return {{rows, columns}, memory::data_type::f32, memory::dims{strides[1], strides[2]}};
    return {{extents[0], rows, columns}, memory::data_type::f32, memory::dims{strides[0], strides[1], strides[2]}};
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

}  // namespace
}  // namespace hetsynth

extern "C" void hetsynth_matmul(int64_t batch, int64_t m, int64_t n, int64_t k, const float* a, int64_t a_batch,
                                int64_t a_row, int64_t a_column, const float* w, int64_t w_batch, int64_t w_row,
                                int64_t w_column, float* c, int64_t c_batch, int64_t c_row, int64_t c_column,
                                int accumulate) {
  using namespace hetsynth;
  if (batch == 0 || m == 0 || n == 0) return;
  if (k == 0) {
    if (!accumulate) fill_zero(batch, m, n, c, c_batch, c_row, c_column);
    return;
  }
  // oneDNN cannot repeat both operands over a batch.
  if (batch > 1 && a_batch == 0 && w_batch == 0) {
    for (int64_t b = 0; b < batch; ++b)
      hetsynth_matmul(1, m, n, k, a, 0, a_row, a_column, w, 0, w_row, w_column, c + b * c_batch, 0, c_row, c_column,
                      accumulate);
    return;
  }
  // oneDNN writes rows: a result stored by columns is the transposed product.
  if (c_column != 1 && c_row == 1) {
    std::swap(m, n);
    std::swap(a, w);
    std::swap(c_row, c_column);
    std::swap(a_batch, w_batch);
    std::swap(a_row, w_column);
    std::swap(a_column, w_row);
  }
  thread_local ProductCache cache;
  Product& product = cache.get(
      {batch, m, n, k, a_batch, a_row, a_column, w_batch, w_row, w_column, c_batch, c_row, c_column, accumulate != 0});
  product.a.set_data_handle(const_cast<float*>(a));
  product.w.set_data_handle(const_cast<float*>(w));
  product.c.set_data_handle(c);
  product.primitive.execute(cache.stream(),
                            {{DNNL_ARG_SRC, product.a}, {DNNL_ARG_WEIGHTS, product.w}, {DNNL_ARG_DST, product.c}});
  cache.stream().wait();
}
