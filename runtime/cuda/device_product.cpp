#include "runtime/cuda/device_product.h"

#include <fmt/format.h>

#include <algorithm>

#include "dsl/base/error.h"

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

}  // namespace

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

DeviceProducts::DeviceProducts(const CublasLt& library, void* workspace, size_t workspace_bytes, int multiprocessors)
    : library_(library), workspace_(workspace), workspace_bytes_(workspace_bytes), multiprocessors_(multiprocessors) {}

DeviceProducts::~DeviceProducts() {
  for (auto& [shape, p] : planned_) {
    if (p.product) library_.product_destroy(p.product);
    for (void* layout : {p.left, p.right, p.result})
      if (layout) library_.layout_destroy(layout);
  }
  if (handle_) library_.destroy(handle_);
}

std::string DeviceProducts::plan(const ProductShape& shape, Planned& planned) {
  if (!handle_)
    if (int status = library_.create(&handle_)) return fmt::format("cublasLtCreate: status {}", status);
  ColumnMajorProduct p = column_major(shape);
  planned.swapped = p.swapped;
  int32_t left_transposed = p.left.transpose, right_transposed = p.right.transpose;
  int status = library_.product_create(&planned.product, compute_32f, real_32f);
  if (!status)
    status = library_.product_set(planned.product, product_transpose_a, &left_transposed, sizeof left_transposed);
  if (!status)
    status = library_.product_set(planned.product, product_transpose_b, &right_transposed, sizeof right_transposed);
  if (!status && multiprocessors_ > 0)
    status = library_.product_set(planned.product, product_multiprocessors, &multiprocessors_, sizeof multiprocessors_);
  const int operands = shape.bf16 ? real_16bf : real_32f;
  auto make = [&](void** layout, const ColumnMajor& matrix, int type) {
    int32_t batch = int32_t(shape.batch);
    if (!status) status = library_.layout_create(layout, type, matrix.rows, matrix.columns, matrix.leading);
    if (!status && batch != 1) status = library_.layout_set(*layout, layout_batch_count, &batch, sizeof batch);
    if (!status && batch != 1)
      status = library_.layout_set(*layout, layout_batch_stride, &matrix.batch_stride, sizeof matrix.batch_stride);
  };
  make(&planned.left, p.left, operands);
  make(&planned.right, p.right, operands);
  make(&planned.result, p.result, real_32f);
  void* preference = nullptr;
  int found = 0;
  if (!status) status = library_.preference_create(&preference);
  if (!status)
    status =
        library_.preference_set(preference, preference_workspace_bytes, &workspace_bytes_, sizeof workspace_bytes_);
  if (!status)
    status = library_.heuristic(handle_, planned.product, planned.left, planned.right, planned.result, planned.result,
                                preference, 1, &planned.choice, &found);
  if (preference) library_.preference_destroy(preference);
  if (status || found == 0)
    return fmt::format("cublasLt has no algorithm for a product of {} x [{}, {}] x [{}, {}] (status {})", shape.batch,
                       shape.m, shape.k, shape.k, shape.n, status);
  return "";
}

std::string DeviceProducts::enqueue(const ProductShape& shape, const void* a, const void* w, float* c, bool accumulate,
                                    void* stream) {
  auto found = planned_.find(shape);
  if (found == planned_.end()) {
    found = planned_.emplace(shape, Planned{}).first;
    std::string problem = plan(shape, found->second);
    if (!problem.empty()) return problem;
  }
  const Planned& p = found->second;
  const float alpha = 1, beta = accumulate ? 1 : 0;
  int status =
      library_.multiply(handle_, p.product, &alpha, p.swapped ? w : a, p.left, p.swapped ? a : w, p.right, &beta, c,
                        p.result, c, p.result, p.choice.algorithm, workspace_, workspace_bytes_, stream);
  return status ? fmt::format("cublasLtMatmul: status {}", status) : "";
}

}  // namespace hetsynth::cuda
