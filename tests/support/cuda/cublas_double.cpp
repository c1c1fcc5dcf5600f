// cublasLt's double: column-major products with sums in double, operations of their stream like all others.
#include <fmt/format.h>

#include <cstring>

#include "tests/support/cuda/double_machine.h"

namespace hetsynth::testing_support {
namespace {

constexpr int not_supported = 15;

struct Product {
  int compute = 0;
  int32_t transpose_a = 0, transpose_b = 0;
};

struct Layout {
  int type;
  int64_t rows, columns, leading;
  int32_t batch = 1;
  int64_t batch_stride = 0;
  int64_t element_bytes() const { return type == cuda::real_16bf ? 2 : 4; }
  /// Elements from the first to the last of a matrix.
  int64_t span() const { return rows == 0 || columns == 0 ? 0 : (columns - 1) * leading + rows; }
};

float at(const void* data, const Layout& layout, int64_t batch, int64_t row, int64_t column) {
  const int64_t index = batch * layout.batch_stride + row + column * layout.leading;
  if (layout.type != cuda::real_16bf) return static_cast<const float*>(data)[index];
  const uint32_t bits = uint32_t(static_cast<const uint16_t*>(data)[index]) << 16;
  float out;
  std::memcpy(&out, &bits, sizeof out);
  return out;
}

void touch(Gpu& gpu, const void* data, const Layout& layout, bool writes, const Toucher& by) {
  for (int64_t b = 0; b < layout.batch; ++b)
    for (int64_t column = 0; column < layout.columns; ++column)
      gpu.touch(
          static_cast<const char*>(data) + (b * layout.batch_stride + column * layout.leading) * layout.element_bytes(),
          size_t(layout.rows * layout.element_bytes()), writes, by);
}

void multiply(const Product& product, const Layout& a_layout, const void* a, const Layout& b_layout, const void* b,
              const Layout& c_layout, float* c, bool accumulate) {
  const int64_t inner = product.transpose_a ? a_layout.rows : a_layout.columns;
  for (int64_t batch = 0; batch < c_layout.batch; ++batch)
    for (int64_t i = 0; i < c_layout.rows; ++i)
      for (int64_t j = 0; j < c_layout.columns; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < inner; ++l)
          sum += double(product.transpose_a ? at(a, a_layout, batch, l, i) : at(a, a_layout, batch, i, l)) *
                 double(product.transpose_b ? at(b, b_layout, batch, j, l) : at(b, b_layout, batch, l, j));
        float& out = c[batch * c_layout.batch_stride + i + j * c_layout.leading];
        out = float(accumulate ? out + sum : sum);
      }
}

int set(void* handle, int attribute, const void* value, size_t bytes) {
  auto& product = *static_cast<Product*>(handle);
  if (bytes != sizeof(int32_t)) return not_supported;
  if (attribute == cuda::product_transpose_a) std::memcpy(&product.transpose_a, value, bytes);
  if (attribute == cuda::product_transpose_b) std::memcpy(&product.transpose_b, value, bytes);
  return 0;
}

int set_layout(void* handle, int attribute, const void* value, size_t bytes) {
  auto& layout = *static_cast<Layout*>(handle);
  if (attribute == cuda::layout_batch_count && bytes == sizeof layout.batch)
    return std::memcpy(&layout.batch, value, bytes), 0;
  if (attribute == cuda::layout_batch_stride && bytes == sizeof layout.batch_stride)
    return std::memcpy(&layout.batch_stride, value, bytes), 0;
  return not_supported;
}

/// Shapes that do not fit, and types that cublasLt does not multiply, get no algorithm.
int heuristic(void*, void* product_handle, void* a_handle, void* b_handle, void* c_handle, void*, void*, int,
              cuda::CublasLtChoice* choices, int* found) {
  const auto& product = *static_cast<Product*>(product_handle);
  const auto &a = *static_cast<Layout*>(a_handle), &b = *static_cast<Layout*>(b_handle),
             &c = *static_cast<Layout*>(c_handle);
  const int64_t m = product.transpose_a ? a.columns : a.rows, k = product.transpose_a ? a.rows : a.columns;
  const int64_t n = product.transpose_b ? b.rows : b.columns, k_b = product.transpose_b ? b.columns : b.rows;
  const bool shapes = m == c.rows && n == c.columns && k == k_b && a.leading >= a.rows && b.leading >= b.rows &&
                      c.leading >= c.rows && a.batch == c.batch && b.batch == c.batch;
  const bool types = product.compute == cuda::compute_32f && a.type == b.type && c.type == cuda::real_32f;
  *found = shapes && types ? 1 : 0;
  *choices = {};
  return *found ? 0 : not_supported;
}

int enqueue(void*, void* product_handle, const void* alpha, const void* a, void* a_handle, const void* b,
            void* b_handle, const void* beta, const void*, void*, void* d, void* d_handle, const void*, void*, size_t,
            void* stream_handle) {
  auto& stream = *static_cast<Stream*>(stream_handle);
  Gpu& gpu = *stream.gpu;
  const auto product = *static_cast<Product*>(product_handle);
  const auto a_layout = *static_cast<Layout*>(a_handle), b_layout = *static_cast<Layout*>(b_handle),
             d_layout = *static_cast<Layout*>(d_handle);
  if (*static_cast<const float*>(alpha) != 1) return not_supported;
  const bool accumulate = *static_cast<const float*>(beta) != 0;
  const std::string name = fmt::format("product of {} x {}", d_layout.rows, d_layout.columns);
  gpu.issue([=, &gpu, &stream] {
    gpu.enqueue(stream, {.name = name, .run = [=, &gpu](Toucher& by) {
                           touch(gpu, a, a_layout, false, by);
                           touch(gpu, b, b_layout, false, by);
                           if (accumulate) touch(gpu, d, d_layout, false, by);
                           touch(gpu, d, d_layout, true, by);
                           if (gpu.memory.problem().empty())
                             multiply(product, a_layout, a, b_layout, b, d_layout, static_cast<float*>(d), accumulate);
                           return true;
                         }});
  });
  return gpu.problem.empty() ? 0 : not_supported;
}

}  // namespace

void fill_cublas(cuda::CublasLt& c) {
  c.create = [](void** handle) { return *handle = new int, 0; };
  c.destroy = [](void* handle) { return delete static_cast<int*>(handle), 0; };
  c.product_create = [](void** product, int compute, int) { return *product = new Product{compute, 0, 0}, 0; };
  c.product_destroy = [](void* product) { return delete static_cast<Product*>(product), 0; };
  c.product_set = set;
  c.layout_create = [](void** layout, int type, uint64_t rows, uint64_t columns, int64_t leading) {
    return *layout = new Layout{type, int64_t(rows), int64_t(columns), leading}, 0;
  };
  c.layout_destroy = [](void* layout) { return delete static_cast<Layout*>(layout), 0; };
  c.layout_set = set_layout;
  c.preference_create = [](void** preference) { return *preference = new int, 0; };
  c.preference_destroy = [](void* preference) { return delete static_cast<int*>(preference), 0; };
  c.preference_set = [](void*, int, const void*, size_t) { return 0; };
  c.heuristic = heuristic;
  c.multiply = enqueue;
}

}  // namespace hetsynth::testing_support
