// Plans of attention made by the real cuDNN, for GPUs that are not here: cuDNN accepts the graphs, writes kernels for
// them and compiles these. Nothing is executed. Skipped out loud without cuDNN or NVRTC.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/cuda/plan/attention_workspace.h"
#include "dsl/jit/compiler.h"
#include "runtime/cuda/cudnn_attention.h"
#include "runtime/jit/nvrtc.h"

namespace hetsynth::cuda {
namespace {

using ::testing::HasSubstr;

/// This machine's cuDNN, with a driver that has no device: cuDNN opens libcuda.so.1, which is then there already.
class CudnnPlans : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(dlopen(HETSYNTH_DRIVER_WITHOUT_DEVICE, RTLD_NOW | RTLD_GLOBAL)) << dlerror();
    problem = load(library);
  }
  void SetUp() override {
    if (!problem.empty()) GTEST_SKIP() << problem;
    if (!cuda_toolkit().available) GTEST_SKIP() << cuda_toolkit().problem;
  }
  static inline Cudnn library;
  static inline std::string problem;
};

/// As cuDNN writes it down.
std::string gpu(int architecture) {
  const int shared_bytes = architecture >= 900 ? 232448 : architecture == 800 ? 166912 : 101376;
  return fmt::format(
      R"({{"deviceVer":{},"multiProcessorCount":132,"warpSize":32,"maxSharedMemoryPerBlock":49152,)"
      R"("maxSharedMemoryPerBlockOptin":{},"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,)"
      R"("maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"regsPerBlock":65536,)"
      R"("totalGlobalMem":150000000000,"smClockRateKHz":1980000,"l2CacheSize":52428800,"maxBlockSize":[1024,1024,64],)"
      R"("memClockRateKHz":2619000,"maxGridSize":[2147483647,65535,65535],"supportCoopLaunch":1,"pciDeviceId":0,)"
      R"("isTccDriver":0,"cudaDeviceId":0,"driverVer":13000,"deviceName":"GPU"}})",
      architecture, shared_bytes);
}

/// Heads within a position, as a model's projections leave them.
AttentionShape shape_of(int64_t batch, int64_t heads, int64_t key_heads, int64_t positions, int64_t features) {
  AttentionShape s;
  s.batch = batch, s.heads = heads, s.key_heads = key_heads, s.queries = s.keys = positions;
  s.features = s.value_features = features;
  s.scale = 0.125f;
  s.q = s.o = s.o_gradient = s.q_gradient = {positions * heads * features, features, heads * features};
  s.k = s.v = s.k_gradient = s.v_gradient = {positions * key_heads * features, features, key_heads * features};
  return s;
}

constexpr int64_t any_workspace = int64_t(1) << 40;

TEST_F(CudnnPlans, AreMadeForEveryShapeThatIsSentToCudnn) {
  struct Case {
    int architecture;
    AttentionShape shape;
  };
  AttentionShape apart = shape_of(2, 4, 4, 256, 64);  // queries, keys and values side by side in one tensor
  for (AttentionStrides* strides : {&apart.q, &apart.k, &apart.v}) *strides = {256 * 3 * 256, 64, 3 * 256};
  AttentionShape other = shape_of(2, 4, 4, 256, 64);  // more keys than queries
  other.keys = 384;
  for (AttentionStrides* strides : {&other.k, &other.v, &other.k_gradient, &other.v_gradient})
    strides->batch = 384 * 256;
  const Case cases[] = {{900, shape_of(8, 12, 12, 1024, 64)},
                        {800, shape_of(8, 12, 12, 1024, 64)},
                        {900, shape_of(2, 12, 4, 1024, 128)},
                        {800, shape_of(2, 8, 1, 512, 128)},
                        {900, shape_of(1, 2, 2, 100, 72)},
                        {860, shape_of(2, 4, 2, 128, 8)},
                        {900, apart},
                        {900, other},
                        {890, shape_of(2, 12, 12, 1024, 64)}};
  for (const Case& c : cases)
    for (const bool backward : {false, true})
      for (const bool causal : {false, true}) {
        if (!causal && c.architecture != 900) continue;  // a second for each plan
        AttentionShape shape = c.shape;
        shape.causal = causal, shape.backward = backward;
        const CudnnDescriptor device = cudnn_device(library, gpu(c.architecture));
        const AttentionGraph graph = attention_graph(library, shape);
        try {
          const CudnnPlan plan = graph.graph.plan(device, any_workspace);
          EXPECT_GE(plan.workspace_bytes, 0);
          const codegen::cuda::AttentionSizes sizes{shape.batch, shape.heads,    shape.key_heads,     shape.queries,
                                                    shape.keys,  shape.features, shape.value_features};
          EXPECT_LE(graph.workspace_bytes + plan.workspace_bytes, attention_workspace_bytes(sizes, backward))
              << description(shape) << " on sm_" << c.architecture / 10 << ": " << plan.workspace_bytes
              << " bytes are cuDNN's";
        } catch (const std::runtime_error& e) {
          ADD_FAILURE() << description(shape) << " on sm_" << c.architecture / 10 << ": " << e.what();
        }
      }
}

TEST_F(CudnnPlans, WhatCudnnDoesNotTakeIsToldInItsWords) {
  const CudnnDescriptor device = cudnn_device(library, gpu(900));
  const auto told = [&](const AttentionShape& shape, int64_t workspace_bytes = any_workspace) -> std::string {
    try {
      attention_graph(library, shape).graph.plan(device, workspace_bytes);
    } catch (const std::runtime_error& e) {
      return e.what();
    }
    return "a plan";
  };
  AttentionShape shape = shape_of(2, 4, 4, 256, 64);
  EXPECT_EQ(told(shape), "a plan");
  shape.features = shape.value_features = 63;
  EXPECT_EQ(told(shape), "cuDNN has no plan: it proposes none");
  shape = shape_of(2, 4, 3, 256, 64);
  EXPECT_THAT(told(shape), HasSubstr("CUDNN_STATUS_"));
  shape = shape_of(2, 4, 4, 256, 64);
  shape.backward = true;
  EXPECT_THAT(told(shape, 0), HasSubstr("and 0 are set aside"));
  EXPECT_THROW(cudnn_device(library, std::string("{}")), CudnnError);
}

// ---- agreement with the header ----

TEST(CudnnNumbers, AreThoseOfTheHeader) {
  if (cuda_toolkit().include_directory.empty()) GTEST_SKIP() << "no CUDA headers here";
  using namespace cudnn;
  const std::pair<const char*, int> numbers[] = {
      {"CUDNN_DATA_FLOAT", float32},
      {"CUDNN_DATA_INT32", int32},
      {"CUDNN_DATA_BFLOAT16", bfloat16},
      {"CUDNN_DATA_BOOLEAN", boolean},
      {"CUDNN_TYPE_HANDLE", of_handle},
      {"CUDNN_TYPE_DATA_TYPE", of_data_type},
      {"CUDNN_TYPE_BOOLEAN", of_boolean},
      {"CUDNN_TYPE_INT64", of_int64},
      {"CUDNN_TYPE_VOID_PTR", of_pointer},
      {"CUDNN_TYPE_HEUR_MODE", of_heuristic},
      {"CUDNN_TYPE_POINTWISE_MODE", of_pointwise},
      {"CUDNN_TYPE_BACKEND_DESCRIPTOR", of_descriptor},
      {"CUDNN_TYPE_REDUCTION_OPERATOR_TYPE", of_reduction},
      {"CUDNN_TYPE_CHAR", of_char},
      {"CUDNN_BACKEND_POINTWISE_DESCRIPTOR", pointwise},
      {"CUDNN_BACKEND_ENGINECFG_DESCRIPTOR", engine_configuration},
      {"CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR", heuristics},
      {"CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR", execution_plan},
      {"CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR", pointwise_operation},
      {"CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR", operation_graph},
      {"CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR", variant_pack},
      {"CUDNN_BACKEND_TENSOR_DESCRIPTOR", tensor},
      {"CUDNN_BACKEND_MATMUL_DESCRIPTOR", matmul},
      {"CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR", matmul_operation},
      {"CUDNN_BACKEND_REDUCTION_DESCRIPTOR", reduction},
      {"CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR", reduction_operation},
      {"CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR", reshape_operation},
      {"CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR", device_properties},
      {"CUDNN_ATTR_POINTWISE_MODE", pointwise_mode},
      {"CUDNN_ATTR_POINTWISE_MATH_PREC", pointwise_precision},
      {"CUDNN_ATTR_POINTWISE_AXIS", pointwise_axis},
      {"CUDNN_ATTR_ENGINEHEUR_MODE", heuristics_mode},
      {"CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH", heuristics_graph},
      {"CUDNN_ATTR_ENGINEHEUR_RESULTS", heuristics_results},
      {"CUDNN_ATTR_ENGINEHEUR_DEVICEPROP", heuristics_device},
      {"CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG", plan_configuration},
      {"CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE", plan_workspace_bytes},
      {"CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP", plan_device},
      {"CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR", pointwise_of},
      {"CUDNN_ATTR_OPERATION_POINTWISE_XDESC", pointwise_x},
      {"CUDNN_ATTR_OPERATION_POINTWISE_BDESC", pointwise_b},
      {"CUDNN_ATTR_OPERATION_POINTWISE_YDESC", pointwise_y},
      {"CUDNN_ATTR_OPERATION_POINTWISE_TDESC", pointwise_t},
      {"CUDNN_ATTR_OPERATIONGRAPH_OPS", graph_operations},
      {"CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT", tensor_alignment},
      {"CUDNN_ATTR_TENSOR_DATA_TYPE", tensor_data_type},
      {"CUDNN_ATTR_TENSOR_DIMENSIONS", tensor_extents},
      {"CUDNN_ATTR_TENSOR_STRIDES", tensor_strides},
      {"CUDNN_ATTR_TENSOR_UNIQUE_ID", tensor_id},
      {"CUDNN_ATTR_TENSOR_IS_VIRTUAL", tensor_virtual},
      {"CUDNN_ATTR_TENSOR_IS_BY_VALUE", tensor_by_value},
      {"CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS", pack_ids},
      {"CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS", pack_pointers},
      {"CUDNN_ATTR_VARIANT_PACK_WORKSPACE", pack_workspace},
      {"CUDNN_ATTR_MATMUL_COMP_TYPE", matmul_precision},
      {"CUDNN_ATTR_OPERATION_MATMUL_ADESC", matmul_a},
      {"CUDNN_ATTR_OPERATION_MATMUL_BDESC", matmul_b},
      {"CUDNN_ATTR_OPERATION_MATMUL_CDESC", matmul_c},
      {"CUDNN_ATTR_OPERATION_MATMUL_DESC", matmul_of},
      {"CUDNN_ATTR_REDUCTION_OPERATOR", reduction_mode},
      {"CUDNN_ATTR_REDUCTION_COMP_TYPE", reduction_precision},
      {"CUDNN_ATTR_OPERATION_REDUCTION_XDESC", reduction_x},
      {"CUDNN_ATTR_OPERATION_REDUCTION_YDESC", reduction_y},
      {"CUDNN_ATTR_OPERATION_REDUCTION_DESC", reduction_of},
      {"CUDNN_ATTR_OPERATION_RESHAPE_XDESC", reshape_x},
      {"CUDNN_ATTR_OPERATION_RESHAPE_YDESC", reshape_y},
      {"CUDNN_ATTR_DEVICEPROP_HANDLE", device_handle},
      {"CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION", device_json},
      {"CUDNN_POINTWISE_ADD", add},
      {"CUDNN_POINTWISE_MUL", multiply},
      {"CUDNN_POINTWISE_DIV", divide},
      {"CUDNN_POINTWISE_SUB", subtract},
      {"CUDNN_POINTWISE_EXP", exponential},
      {"CUDNN_POINTWISE_LOG", logarithm},
      {"CUDNN_POINTWISE_IDENTITY", identity},
      {"CUDNN_POINTWISE_CMP_GE", greater_or_equal},
      {"CUDNN_POINTWISE_GEN_INDEX", cudnn::index},
      {"CUDNN_POINTWISE_BINARY_SELECT", cudnn::select},
      {"CUDNN_REDUCE_TENSOR_ADD", sum},
      {"CUDNN_REDUCE_TENSOR_MAX", maximum},
      {"CUDNN_HEUR_MODE_A", mode_a},
  };
  std::string source =
      "#include <cudnn_graph.h>\nstatic_assert(sizeof(cudnnBackendAttributeName_t) == 4 && sizeof(bool) == 1);\n";
  for (const auto& [name, number] : numbers) source += fmt::format("static_assert({} == {});\n", name, number);
  CompileOptions options;
  options.include_directories = {cuda_toolkit().include_directory};
  const CompileResult result = compile_object(source, options);
  if (result.text.find("file not found") != std::string::npos)
    GTEST_SKIP() << "headers are incomplete: " << result.text;
  EXPECT_TRUE(result.ok) << result.text;
}

}  // namespace
}  // namespace hetsynth::cuda
