#include "runtime/cuda/device_product.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dsl/base/error.h"
#include "runtime/rank/notice.h"

namespace hetsynth::cuda {
namespace {

/// The matrix [rows, columns] with these strides, as a column-major one of the same shape.
ColumnMajor as_column_major(int64_t rows, int64_t columns, int64_t row, int64_t column, int64_t batch_stride) {
  if (row == 1 || rows == 1) {
    int64_t leading = columns == 1 ? rows : column;
    if (leading >= rows) return {uint64_t(rows), uint64_t(columns), leading, batch_stride, false};
  }
  HETSYNTH_CHECK(column == 1 || columns == 1, "rows or columns of a product's operand have stride 1");
  int64_t leading = rows == 1 ? columns : row;
  HETSYNTH_CHECK(leading >= columns, "rows of a product's operand do not overlap");
  return {uint64_t(columns), uint64_t(rows), leading, batch_stride, true};
}

/// What cublasLt may count on, up to what it counts on unless told.
uint32_t alignment_of(const void* pointer) {
  constexpr uintptr_t most = 256;
  const auto address = reinterpret_cast<uintptr_t>(pointer) | most;
  return uint32_t(address & (~address + 1));
}

}  // namespace

bool has_bias(int epilogue) {
  return epilogue == epilogue_dgelu_bgrad || epilogue == epilogue_bias || epilogue == epilogue_relu_bias ||
         epilogue == epilogue_gelu_bias || epilogue == epilogue_gelu_aux_bias;
}
bool has_matrix_beside(int epilogue) {
  return epilogue == epilogue_gelu_aux_bias || epilogue == epilogue_dgelu || epilogue == epilogue_dgelu_bgrad;
}

std::string_view name(ProductType type) {
  switch (type) {
    case ProductType::f32:
      return "f32";
    case ProductType::bf16:
      return "bf16";
    case ProductType::tf32:
      return "tf32";
    case ProductType::fp16:
      break;
  }
  return "fp16";
}

std::vector<int> cublas_numbers(ProductEpilogue epilogue) {
  switch (epilogue) {
    case ProductEpilogue::bias:
      return {epilogue_bias};
    case ProductEpilogue::bias_relu:
      return {epilogue_relu_bias};
    case ProductEpilogue::bias_gelu:
      return {epilogue_gelu_bias};
    case ProductEpilogue::bias_gelu_kept:
      return {epilogue_gelu_aux_bias};
    case ProductEpilogue::gelu_slope:
      break;
  }
  return {epilogue_dgelu, epilogue_dgelu_bgrad};
}

ColumnMajorProduct column_major(const ProductShape& s) {
  ColumnMajor result = as_column_major(s.m, s.n, s.c_row, s.c_column, s.c_batch);
  if (!result.transpose)
    return {as_column_major(s.m, s.k, s.a_row, s.a_column, s.a_batch),
            as_column_major(s.k, s.n, s.w_row, s.w_column, s.w_batch), result, false};
  result.transpose = false;
  return {as_column_major(s.n, s.k, s.w_column, s.w_row, s.w_batch),
          as_column_major(s.k, s.m, s.a_column, s.a_row, s.a_batch), result, true};
}

struct DeviceProducts::Planned {
  void *product = nullptr, *left = nullptr, *right = nullptr, *result = nullptr;
  CublasLtChoice choice{};
  bool swapped = false;
};

DeviceProducts::DeviceProducts(const CublasLt& library, void* workspace, size_t workspace_bytes, int multiprocessors,
                               Follow follow)
    : library_(library),
      workspace_(workspace),
      workspace_bytes_(workspace_bytes),
      multiprocessors_(multiprocessors),
      follow_(std::move(follow)) {}

DeviceProducts::~DeviceProducts() {
  for (const auto& [wanted, planned] : planned_) give_back(planned);
  if (handle_) library_.destroy(handle_);
}

void DeviceProducts::give_back(const Planned& planned) const {
  if (planned.product) library_.product_destroy(planned.product);
  for (void* layout : {planned.left, planned.right, planned.result})
    if (layout) library_.layout_destroy(layout);
}

/// Bias and what lies beside the result are the descriptor's, so they are set anew for every call.
int DeviceProducts::set_epilogue(const ProductShape& shape, const ProductOperands& operands, void* product) const {
  int status = 0;
  auto set = [&](int attribute, const auto& value) {
    if (!status) status = library_.product_set(product, attribute, &value, sizeof value);
  };
  set(product_epilogue, uint32_t(shape.epilogue));
  if (has_bias(shape.epilogue)) set(product_bias, operands.bias);
  if (has_matrix_beside(shape.epilogue)) {
    set(product_beside, operands.beside);
    set(product_beside_leading, shape.c_row);
  }
  return status;
}

std::string DeviceProducts::plan(const Wanted& wanted, const ProductOperands& operands, Planned& planned) {
  const ProductShape& shape = wanted.shape;
  if (!handle_)
    if (int status = library_.create(&handle_)) return fmt::format("cublasLtCreate: status {}", status);
  ColumnMajorProduct p = column_major(shape);
  planned.swapped = p.swapped;
  int32_t left_transposed = p.left.transpose, right_transposed = p.right.transpose;
  int status = library_.product_create(&planned.product,
                                       shape.type == ProductType::tf32 ? compute_32f_tf32 : compute_32f, real_32f);
  if (!status)
    status = library_.product_set(planned.product, product_transpose_a, &left_transposed, sizeof left_transposed);
  if (!status)
    status = library_.product_set(planned.product, product_transpose_b, &right_transposed, sizeof right_transposed);
  if (!status && multiprocessors_ > 0)
    status = library_.product_set(planned.product, product_multiprocessors, &multiprocessors_, sizeof multiprocessors_);
  if (!status && shape.epilogue != epilogue_none) {
    HETSYNTH_CHECK(p.swapped && shape.batch == 1, "the result of a product with an epilogue is one matrix, row by row");
    status = set_epilogue(shape, operands, planned.product);
  }
  const int operand_type = shape.type == ProductType::bf16   ? real_16bf
                           : shape.type == ProductType::fp16 ? real_16f
                                                             : real_32f;
  auto make = [&](void** layout, const ColumnMajor& matrix, int type) {
    int32_t batch = int32_t(shape.batch);
    if (!status) status = library_.layout_create(layout, type, matrix.rows, matrix.columns, matrix.leading);
    if (!status && batch != 1) status = library_.layout_set(*layout, layout_batch_count, &batch, sizeof batch);
    if (!status && batch != 1)
      status = library_.layout_set(*layout, layout_batch_stride, &matrix.batch_stride, sizeof matrix.batch_stride);
  };
  make(&planned.left, p.left, operand_type);
  make(&planned.right, p.right, operand_type);
  make(&planned.result, p.result, real_32f);
  void* preference = nullptr;
  int found = 0;
  if (!status) status = library_.preference_create(&preference);
  if (!status)
    status =
        library_.preference_set(preference, preference_workspace_bytes, &workspace_bytes_, sizeof workspace_bytes_);
  const std::pair<int, uint32_t> alignments[] = {
      {preference_alignment_a, p.swapped ? wanted.w_alignment : wanted.a_alignment},
      {preference_alignment_b, p.swapped ? wanted.a_alignment : wanted.w_alignment},
      {preference_alignment_c, wanted.c_alignment},
      {preference_alignment_d, wanted.c_alignment}};
  for (const auto& [attribute, bytes] : alignments)
    if (!status) status = library_.preference_set(preference, attribute, &bytes, sizeof bytes);
  if (!status)
    status = library_.heuristic(handle_, planned.product, planned.left, planned.right, planned.result, planned.result,
                                preference, 1, &planned.choice, &found);
  if (preference) library_.preference_destroy(preference);
  if (!status && found > 0) return "";
  const std::string product =
      fmt::format("a product of {} x [{}, {}] x [{}, {}]{}", shape.batch, shape.m, shape.k, shape.k, shape.n,
                  shape.type == ProductType::f32 ? "" : fmt::format(" in {}", name(shape.type)));
  if (shape.epilogue == epilogue_none)
    return fmt::format("cublasLt has no algorithm for {} (status {})", product, status);
  return fmt::format(
      "cublasLt has no algorithm for {} with epilogue {} (status {}); to mend: write epilogues = [] under `declared` "
      "of the device in the cluster file, or measure which it has with hetsynth probe",
      product, shape.epilogue, status);
}

/// The bare product, and what the epilogue would have done.
std::string DeviceProducts::enqueue_followed(const Wanted& wanted, const ProductOperands& operands, void* stream) {
  ProductShape bare = wanted.shape;
  bare.epilogue = epilogue_none;
  std::string problem = enqueue(bare, operands, false, stream);
  return problem.empty() ? follow_(wanted.shape, operands, stream) : problem;
}

std::string DeviceProducts::enqueue(const ProductShape& shape, const ProductOperands& operands, bool accumulate,
                                    void* stream) {
  const auto& [a, w, c, bias, beside] = operands;
  const Wanted wanted{shape, alignment_of(a), alignment_of(w), alignment_of(c)};
  if (followed_.contains(wanted)) return enqueue_followed(wanted, operands, stream);
  auto found = planned_.find(wanted);
  if (found == planned_.end()) {
    found = planned_.emplace(wanted, Planned{}).first;
    std::string problem = plan(wanted, operands, found->second);
    if (!problem.empty()) {
      give_back(found->second);
      planned_.erase(found);
      if (shape.epilogue == epilogue_none || !follow_) return problem;
      problem = enqueue_followed(wanted, operands, stream);
      if (!problem.empty()) return problem;
      if (followed_.empty())
        warn(
            "cublasLt has no algorithm for a product with epilogue {}: a kernel follows it, at a loss of time; "
            "hetsynth probe finds out which epilogues it has",
            shape.epilogue);
      followed_.insert(wanted);
      return "";
    }
  }
  const Planned& p = found->second;
  int status = shape.epilogue == epilogue_none ? 0 : set_epilogue(shape, operands, p.product);
  const float alpha = 1, beta = accumulate ? 1 : 0;
  if (!status)
    status = library_.multiply(handle_, p.product, &alpha, p.swapped ? w : a, p.left, p.swapped ? a : w, p.right, &beta,
                               c, p.result, c, p.result, p.choice.algorithm, workspace_, workspace_bytes_, stream);
  return status ? fmt::format("cublasLtMatmul: status {}", status) : "";
}

}  // namespace hetsynth::cuda
