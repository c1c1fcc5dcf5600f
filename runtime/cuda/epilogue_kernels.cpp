#include "runtime/cuda/epilogue_kernels.h"

#include <fmt/format.h>

namespace hetsynth::cuda {
namespace {

constexpr int64_t threads = 256, columns_of_block = 32;

/// gelu is cublasLt's: the tanh approximation.
const std::string kernels = fmt::format(
    R"(
__device__ float tanh_of_gelu(float x) {{ return tanhf(0.7978845608f * (x + 0.044715f * x * x * x)); }}
__device__ float slope_of_gelu(float x) {{
  const float t = tanh_of_gelu(x);
  return 0.5f * (1.0f + t + x * (1.0f - t * t) * 0.7978845608f * (1.0f + 3.0f * 0.044715f * x * x));
}}
extern "C" __global__ void follow(float* c, const float* bias, float* beside, long long rows, long long columns,
                                  long long leading, long long epilogue) {{
  const long long element = (long long)blockIdx.x * {threads} + threadIdx.x;
  if (element >= rows * columns) return;
  const long long column = element % columns, at = element / columns * leading + column;
  if (epilogue == {dgelu} || epilogue == {dgelu_and_sums}) {{
    c[at] *= slope_of_gelu(beside[at]);
    return;
  }}
  const float x = c[at] + bias[column];
  if (epilogue == {kept}) beside[at] = x;
  c[at] = epilogue == {bias} ? x : epilogue == {relu} ? (x > 0.0f ? x : 0.0f) : 0.5f * x * (1.0f + tanh_of_gelu(x));
}}
extern "C" __global__ void sum_columns(const float* c, float* sums, long long rows, long long columns,
                                       long long leading) {{
  __shared__ float parts[{warps}][{block_columns}];
  const int lane = threadIdx.x % {block_columns}, warp = threadIdx.x / {block_columns};
  const long long column = (long long)blockIdx.x * {block_columns} + lane;
  float sum = 0.0f;
  for (long long row = warp; column < columns && row < rows; row += {warps}) sum += c[row * leading + column];
  parts[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || column >= columns) return;
  for (int other = 1; other < {warps}; ++other) sum += parts[other][lane];
  sums[column] = sum;
}}
)",
    fmt::arg("threads", threads), fmt::arg("warps", threads / columns_of_block),
    fmt::arg("block_columns", columns_of_block), fmt::arg("bias", epilogue_bias), fmt::arg("relu", epilogue_relu_bias),
    fmt::arg("kept", epilogue_gelu_aux_bias), fmt::arg("dgelu", epilogue_dgelu),
    fmt::arg("dgelu_and_sums", epilogue_dgelu_bgrad));

int64_t blocks_for(int64_t work, int64_t of_block) { return (work + of_block - 1) / of_block; }

/// What the epilogue needs and is not given.
std::string missing(const ProductShape& shape, const ProductOperands& operands) {
  if (!has_bias(shape.epilogue) && !has_matrix_beside(shape.epilogue))
    return fmt::format("there is no epilogue {} of products", shape.epilogue);
  if (has_bias(shape.epilogue) && !operands.bias)
    return fmt::format("epilogue {} has a bias, and none is given", shape.epilogue);
  if (has_matrix_beside(shape.epilogue) && !operands.beside)
    return fmt::format("epilogue {} has a matrix beside the result, and none is given", shape.epilogue);
  return "";
}

}  // namespace

EpilogueKernels::~EpilogueKernels() {
  if (module_) driver_.module_unload(module_);
}

std::string EpilogueKernels::failed(int error, const char* call) const {
  if (!error) return "";
  const char* text = nullptr;
  driver_.error_text(error, &text);
  return fmt::format("{}: {}", call, text ? text : fmt::format("error {}", error));
}

std::string EpilogueKernels::load() {
  if (!compile_) return "there is no compiler for the kernels that follow products";
  const CudaCode code = compile_(kernels, "epilogues.cu");
  if (!code.ok()) return "the kernels that follow products do not compile:\n" + code.log;
  if (int error = driver_.module_load(&module_, code.cubin.data())) return failed(error, "cuModuleLoadData");
  if (int error = driver_.module_function(&follow_, module_, "follow")) return failed(error, "cuModuleGetFunction");
  return failed(driver_.module_function(&sum_columns_, module_, "sum_columns"), "cuModuleGetFunction");
}

std::string EpilogueKernels::launch(void* function, int64_t blocks, void** arguments, void* stream) const {
  return failed(
      driver_.launch(function, unsigned(blocks), 1, 1, unsigned(threads), 1, 1, 0, stream, arguments, nullptr),
      "cuLaunchKernel");
}

std::string EpilogueKernels::follow(const ProductShape& shape, const ProductOperands& operands, void* stream) {
  if (std::string problem = missing(shape, operands); !problem.empty()) return problem;
  if (!module_)
    if (std::string problem = load(); !problem.empty()) return problem;
  int64_t rows = shape.m, columns = shape.n, leading = shape.c_row, epilogue = shape.epilogue;
  float *c = operands.c, *bias = operands.bias, *beside = operands.beside;
  void* all[] = {&c, &bias, &beside, &rows, &columns, &leading, &epilogue, nullptr};
  std::string problem = launch(follow_, blocks_for(rows * columns, threads), all, stream);
  if (!problem.empty() || shape.epilogue != epilogue_dgelu_bgrad) return problem;
  void* of_sums[] = {&c, &bias, &rows, &columns, &leading, nullptr};
  return launch(sum_columns_, blocks_for(columns, columns_of_block), of_sums, stream);
}

}  // namespace hetsynth::cuda
