// cublasLt's double: column-major products with sums in double, operations of their stream like all others. Algorithms
// are for the alignment and the epilogue that they were asked for: other calls are refused, as cublasLt may refuse
// them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

#include "tests/support/cuda/double_machine.h"

namespace hetsynth::testing_support {
namespace {

constexpr int invalid_value = 7, not_supported = 15;

struct Product {
  int compute = 0;
  int32_t transpose_a = 0, transpose_b = 0;
  uint32_t epilogue = cuda::epilogue_none;
  float* bias = nullptr;
  float* beside = nullptr;
  int64_t beside_leading = 0;

  bool adds_bias() const {
    return epilogue == cuda::epilogue_bias || epilogue == cuda::epilogue_relu_bias ||
           epilogue == cuda::epilogue_gelu_bias || keeps();
  }
  bool keeps() const { return epilogue == cuda::epilogue_gelu_aux_bias; }
  bool sums_columns() const { return epilogue == cuda::epilogue_dgelu_bgrad; }
  bool reads_beside() const { return epilogue == cuda::epilogue_dgelu || sums_columns(); }
  /// What cublasLt.h asks for, with a result of so many rows; "" if it is there.
  std::string problem(int64_t rows) const {
    if (epilogue == cuda::epilogue_none) return "";
    if (!adds_bias() && !reads_beside()) return fmt::format("there is no epilogue {}", epilogue);
    const bool with_bias = adds_bias() || sums_columns();
    if (with_bias && !bias) return "the epilogue has a bias, and none is given";
    if (with_bias && reinterpret_cast<uintptr_t>(bias) % 16 != 0)
      return "the bias does not lie at a multiple of 16 bytes";
    if (!keeps() && !reads_beside()) return "";
    if (!beside) return "the epilogue has a matrix beside the result, and none is given";
    if (beside_leading % 8 != 0 || beside_leading < rows)
      return fmt::format("rows of {} elements beside a result of {}", beside_leading, rows);
    return reinterpret_cast<uintptr_t>(beside) % 16 != 0 ? "the matrix beside the result is not aligned" : "";
  }
};

/// What an algorithm may count on, by matrix: A, B, C, D.
struct Preference {
  uint32_t alignment[4] = {256, 256, 256, 256};
};
struct Algorithm {
  uint64_t known;  ///< one of ours
  uint32_t alignment[4];
  uint32_t epilogue;
};
constexpr uint64_t of_ours = 0x68657473796e7468;
static_assert(sizeof(Algorithm) <= sizeof cuda::CublasLtChoice::algorithm);

struct Layout {
  int type;
  int64_t rows, columns, leading;
  int32_t batch = 1;
  int64_t batch_stride = 0;
  int64_t element_bytes() const { return type == cuda::real_32f ? 4 : 2; }
  /// Elements from the first to the last of a matrix.
  int64_t span() const { return rows == 0 || columns == 0 ? 0 : (columns - 1) * leading + rows; }
};

float from_fp16(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double value = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return float(bits >> 15 ? -value : value);
}

float at(const void* data, const Layout& layout, int64_t batch, int64_t row, int64_t column) {
  const int64_t index = batch * layout.batch_stride + row + column * layout.leading;
  if (layout.type == cuda::real_32f) return static_cast<const float*>(data)[index];
  if (layout.type == cuda::real_16f) return from_fp16(static_cast<const uint16_t*>(data)[index]);
  const uint32_t bits = uint32_t(static_cast<const uint16_t*>(data)[index]) << 16;
  float out;
  std::memcpy(&out, &bits, sizeof out);
  return out;
}

/// By the tanh approximation.
double gelu_tanh(double x) { return std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)); }
double gelu_slope(double x) {
  const double t = gelu_tanh(x);
  return 0.5 * (1 + t + x * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x));
}

float finished(const Product& product, int64_t row, int64_t column, double sum) {
  const int64_t place = row + column * product.beside_leading;
  if (product.epilogue == cuda::epilogue_none) return float(sum);
  if (product.reads_beside()) return float(sum * gelu_slope(double(product.beside[place])));
  const double x = sum + double(product.bias[row]);
  if (product.keeps()) product.beside[place] = float(x);
  if (product.epilogue == cuda::epilogue_bias) return float(x);
  return float(product.epilogue == cuda::epilogue_relu_bias ? std::max(x, 0.0) : 0.5 * x * (1 + gelu_tanh(x)));
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
        out = finished(product, i, j, accumulate ? out + sum : sum);
      }
  for (int64_t i = 0; product.sums_columns() && i < c_layout.rows; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < c_layout.columns; ++j) sum += double(c[i + j * c_layout.leading]);
    product.bias[i] = float(sum);
  }
}

int set(void* handle, int attribute, const void* value, size_t bytes) {
  auto& product = *static_cast<Product*>(handle);
  int32_t multiprocessors = 0;
  const std::tuple<int, void*, size_t> known[] = {
      {cuda::product_transpose_a, &product.transpose_a, sizeof product.transpose_a},
      {cuda::product_transpose_b, &product.transpose_b, sizeof product.transpose_b},
      {cuda::product_multiprocessors, &multiprocessors, sizeof multiprocessors},
      {cuda::product_epilogue, &product.epilogue, sizeof product.epilogue},
      {cuda::product_bias, &product.bias, sizeof product.bias},
      {cuda::product_beside, &product.beside, sizeof product.beside},
      {cuda::product_beside_leading, &product.beside_leading, sizeof product.beside_leading}};
  for (const auto& [number, place, size] : known)
    if (number == attribute && size == bytes) return std::memcpy(place, value, bytes), 0;
  return invalid_value;
}

int set_preference(void* handle, int attribute, const void* value, size_t bytes) {
  auto& preference = *static_cast<Preference*>(handle);
  if (attribute == cuda::preference_workspace_bytes) return bytes == sizeof(size_t) ? 0 : invalid_value;
  const int matrix = attribute - cuda::preference_alignment_a;
  if (matrix < 0 || matrix > 3 || bytes != sizeof(uint32_t)) return invalid_value;
  return std::memcpy(&preference.alignment[matrix], value, bytes), 0;
}

int set_layout(void* handle, int attribute, const void* value, size_t bytes) {
  auto& layout = *static_cast<Layout*>(handle);
  if (attribute == cuda::layout_batch_count && bytes == sizeof layout.batch)
    return std::memcpy(&layout.batch, value, bytes), 0;
  if (attribute == cuda::layout_batch_stride && bytes == sizeof layout.batch_stride)
    return std::memcpy(&layout.batch_stride, value, bytes), 0;
  return not_supported;
}

/// Shapes that do not fit, types that cublasLt does not multiply, and epilogues without what they need get no
/// algorithm.
int heuristic(void*, void* product_handle, void* a_handle, void* b_handle, void* c_handle, void*,
              void* preference_handle, int, cuda::CublasLtChoice* choices, int* found) {
  const auto& product = *static_cast<Product*>(product_handle);
  const auto &a = *static_cast<Layout*>(a_handle), &b = *static_cast<Layout*>(b_handle),
             &c = *static_cast<Layout*>(c_handle);
  const int64_t m = product.transpose_a ? a.columns : a.rows, k = product.transpose_a ? a.rows : a.columns;
  const int64_t n = product.transpose_b ? b.rows : b.columns, k_b = product.transpose_b ? b.columns : b.rows;
  const bool shapes = m == c.rows && n == c.columns && k == k_b && a.leading >= a.rows && b.leading >= b.rows &&
                      c.leading >= c.rows && a.batch == c.batch && b.batch == c.batch;
  // Tensor cores know bf16 and TF32 since sm_80.
  const bool tf32 = product.compute == cuda::compute_32f_tf32, bf16 = a.type == cuda::real_16bf;
  const bool operands = tf32 ? a.type == cuda::real_32f : product.compute == cuda::compute_32f;
  const bool types = operands && a.type == b.type && c.type == cuda::real_32f &&
                     (DoubleMachine::current().options.major >= 8 || (!tf32 && !bf16));
  const bool epilogue = product.epilogue == cuda::epilogue_none || (DoubleMachine::current().options.has_epilogues &&
                                                                    c.batch == 1 && product.problem(c.rows).empty());
  *found = shapes && types && epilogue ? 1 : 0;
  *choices = {};
  Algorithm algorithm{of_ours, {}, product.epilogue};
  std::ranges::copy(static_cast<Preference*>(preference_handle)->alignment, algorithm.alignment);
  std::memcpy(choices->algorithm, &algorithm, sizeof algorithm);
  return *found ? 0 : not_supported;
}

int enqueue(void*, void* product_handle, const void* alpha, const void* a, void* a_handle, const void* b,
            void* b_handle, const void* beta, const void* c, void*, void* d, void* d_handle, const void* chosen, void*,
            size_t, void* stream_handle) {
  auto& stream = *static_cast<Stream*>(stream_handle);
  Gpu& gpu = *stream.gpu;
  const auto product = *static_cast<Product*>(product_handle);
  const auto a_layout = *static_cast<Layout*>(a_handle), b_layout = *static_cast<Layout*>(b_handle),
             d_layout = *static_cast<Layout*>(d_handle);
  if (*static_cast<const float*>(alpha) != 1) return not_supported;
  const bool accumulate = *static_cast<const float*>(beta) != 0;
  Algorithm algorithm;
  std::memcpy(&algorithm, chosen, sizeof algorithm);
  const void* const matrices[] = {a, b, c, d};
  for (int matrix = 0; matrix < 4; ++matrix)
    if (reinterpret_cast<uintptr_t>(matrices[matrix]) % algorithm.alignment[matrix] != 0) return not_supported;
  if (algorithm.known != of_ours || algorithm.epilogue != product.epilogue || !product.problem(d_layout.rows).empty())
    return not_supported;
  const std::string name = fmt::format("product of {} x {}", d_layout.rows, d_layout.columns);
  gpu.issue([=, &gpu, &stream] {
    gpu.enqueue(stream, {.name = name, .run = [=, &gpu](Toucher& by) {
                           touch(gpu, a, a_layout, false, by);
                           touch(gpu, b, b_layout, false, by);
                           if (accumulate) touch(gpu, d, d_layout, false, by);
                           if (product.adds_bias() || product.sums_columns())
                             gpu.touch(product.bias, size_t(d_layout.rows) * sizeof(float), product.sums_columns(), by);
                           Layout beside = d_layout;
                           beside.leading = product.beside_leading;
                           if (product.reads_beside() || product.keeps())
                             touch(gpu, product.beside, beside, product.keeps(), by);
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
  c.version = [] { return size_t(DoubleMachine::current().options.cublas_version); };
  c.create = [](void** handle) { return *handle = new int, 0; };
  c.destroy = [](void* handle) { return delete static_cast<int*>(handle), 0; };
  c.product_create = [](void** product, int compute, int) { return *product = new Product{.compute = compute}, 0; };
  c.product_destroy = [](void* product) { return delete static_cast<Product*>(product), 0; };
  c.product_set = set;
  c.layout_create = [](void** layout, int type, uint64_t rows, uint64_t columns, int64_t leading) {
    return *layout = new Layout{type, int64_t(rows), int64_t(columns), leading}, 0;
  };
  c.layout_destroy = [](void* layout) { return delete static_cast<Layout*>(layout), 0; };
  c.layout_set = set_layout;
  c.preference_create = [](void** preference) { return *preference = new Preference, 0; };
  c.preference_destroy = [](void* preference) { return delete static_cast<Preference*>(preference), 0; };
  c.preference_set = set_preference;
  c.heuristic = heuristic;
  c.multiply = enqueue;
}

}  // namespace hetsynth::testing_support
