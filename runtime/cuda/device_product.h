// Matrix products on a device through cublasLt, which thinks in column-major matrices.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/cluster/product_epilogue.h"
#include "runtime/cuda/cuda_api.h"

namespace hetsynth::cuda {

/// What a and w are, and how they are multiplied; sums and c are float32. No generated program asks for TF32.
enum class ProductType : uint8_t {
  f32,  ///< float32, multiplied as such
  bf16,
  tf32,  ///< float32, rounded to TF32 on the way to the tensor cores
  fp16,
};
constexpr ProductType product_types[] = {ProductType::f32, ProductType::bf16, ProductType::tf32, ProductType::fp16};
/// "f32", "bf16", ...
std::string_view name(ProductType type);
/// Bytes of an element of a and w.
constexpr int64_t element_bytes(ProductType type) {
  return type == ProductType::bf16 || type == ProductType::fp16 ? 2 : 4;
}

/// A product as codegen/interface/abi.h has it: strides in elements per batch, row and column.
struct ProductShape {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  int64_t a_batch = 0, a_row = 0, a_column = 0;
  int64_t w_batch = 0, w_row = 0, w_column = 0;
  int64_t c_batch = 0, c_row = 0, c_column = 0;
  ProductType type = ProductType::f32;
  int epilogue = epilogue_none;
  auto operator<=>(const ProductShape&) const = default;
};

/// Whether an epilogue, by cublasLt's number, adds a bias or sums up one, and whether it stores or reads a matrix
/// beside the result.
bool has_bias(int epilogue);
bool has_matrix_beside(int epilogue);

/// cublasLt's numbers of an epilogue: without sums of columns, then with them, where there are such.
std::vector<int> cublas_numbers(ProductEpilogue epilogue);

/// Where a product's matrices lie on the device.
struct ProductOperands {
  const void *a = nullptr, *w = nullptr;
  float* c = nullptr;
  float* bias = nullptr;    ///< of epilogues that add one or sum up one: a number for each element of a row of c
  float* beside = nullptr;  ///< of epilogues that store or read what is before the activation: laid out as c
};

/// One operand as cublasLt takes it: column-major with a leading dimension, perhaps to be transposed.
struct ColumnMajor {
  uint64_t rows = 0, columns = 0;
  int64_t leading = 0, batch_stride = 0;
  bool transpose = false;
  bool operator==(const ColumnMajor&) const = default;
};

/// result = left * right, all column-major. `swapped`: left is the caller's w and right its a.
struct ColumnMajorProduct {
  ColumnMajor left, right, result;
  bool swapped = false;
};

/// A row-major result is the column-major transpose: c^T = w^T a^T. Throws InternalError if an operand has neither rows
/// nor columns of stride 1.
ColumnMajorProduct column_major(const ProductShape& shape);

/// Products of one device; chosen algorithms are kept by shape. Called from one thread.
class DeviceProducts {
 public:
  /// Enqueues what an epilogue would do to the bare product in c; "" or what failed.
  using Follow = std::function<std::string(const ProductShape&, const ProductOperands&, void* stream)>;
  /// `multiprocessors`: those that products may count on; 0: all of the device. `follow`: for epilogues that cublasLt
  /// has no algorithm for; without it they fail.
  DeviceProducts(const CublasLt& library, void* workspace, size_t workspace_bytes, int multiprocessors = 0,
                 Follow follow = {});
  ~DeviceProducts();
  DeviceProducts(const DeviceProducts&) = delete;
  DeviceProducts& operator=(const DeviceProducts&) = delete;
  /// Enqueues the product. Returns "" or what failed. With an epilogue, c lies row by row and is not added to.
  std::string enqueue(const ProductShape& shape, const ProductOperands& operands, bool accumulate, void* stream);

 private:
  struct Planned;
  /// Algorithms are chosen for shapes and for how well the matrices are aligned.
  struct Wanted {
    ProductShape shape;
    uint32_t a_alignment, w_alignment, c_alignment;  ///< bytes
    auto operator<=>(const Wanted&) const = default;
  };
  std::string enqueue_followed(const Wanted& wanted, const ProductOperands& operands, void* stream);
  std::string plan(const Wanted& wanted, const ProductOperands& operands, Planned& planned);
  void give_back(const Planned& planned) const;
  int set_epilogue(const ProductShape& shape, const ProductOperands& operands, void* product) const;
  const CublasLt& library_;
  void* handle_ = nullptr;
  void* workspace_;
  size_t workspace_bytes_;
  int32_t multiprocessors_;
  Follow follow_;
  std::map<Wanted, Planned> planned_;
  std::set<Wanted> followed_;  ///< epilogues that cublasLt has no algorithm for
};

}  // namespace hetsynth::cuda
