// The runtime side of cuda devices, through doubles of the library tables: which calls are made, in which order, with
// what.
#include "runtime/cuda/cuda_device.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "dsl/base/error.h"
#include "dsl/jit/compiler.h"
#include "runtime/cuda/device_product.h"
#include "runtime/jit/nvrtc.h"

namespace hetsynth::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// ---- a driver that writes down what it is asked for ----

std::vector<std::string> calls;
int fail_launch = 0, streams = 0;
size_t free_bytes = size_t(1) << 30;

void* handle(intptr_t number) { return reinterpret_cast<void*>(number); }
std::string stream_name(void* stream) {
  const std::map<void*, std::string> names{
      {handle(100), "compute"}, {handle(101), "communication"}, {handle(102), "rising"}, {handle(103), "falling"}};
  const auto name = names.find(stream);
  return name == names.end() ? "other" : name->second;
}

Api make_double() {
  Api api;
  api.has_driver = api.has_nccl = api.has_cublas = true;
  Driver& d = api.driver;
  d.init = [](unsigned) { return 0; };
  d.device_get = [](int* device, int ordinal) { return *device = ordinal, 0; };
  d.primary_context_retain = [](void** context, int) { return *context = handle(1), 0; };
  d.primary_context_release = [](int) { return calls.push_back("release"), 0; };
  d.context_set_current = [](void*) { return 0; };
  d.priority_range = [](int* least, int* greatest) { return *least = 0, *greatest = -5, 0; };
  d.module_load = [](void** module, const void* image) {
    calls.push_back(std::string("load ") + static_cast<const char*>(image));
    return *module = handle(2), 0;
  };
  d.module_unload = [](void*) { return 0; };
  d.module_function = [](void** function, void*, const char* name) {
    calls.push_back(std::string("function ") + name);
    return *function = handle(std::strlen(name)), 0;
  };
  d.launch = [](void* function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned, unsigned,
                void* stream, void**, void**) {
    calls.push_back(fmt::format("launch {} {}x{} on {}", reinterpret_cast<intptr_t>(function), blocks, threads,
                                stream_name(stream)));
    return fail_launch;
  };
  d.allocate = [](DevicePointer* pointer, size_t bytes) {
    calls.push_back(fmt::format("allocate {}", bytes));
    return *pointer = 0x10000, 0;
  };
  d.free = [](DevicePointer) { return calls.push_back("free"), 0; };
  d.fill = [](DevicePointer, unsigned char, size_t, void*) { return 0; };
  d.copy_to_device = [](DevicePointer to, const void*, size_t bytes, void* stream) {
    calls.push_back(fmt::format("write {} at {} on {}", bytes, to - 0x10000, stream_name(stream)));
    return 0;
  };
  d.copy_to_host = [](void*, DevicePointer from, size_t bytes, void* stream) {
    calls.push_back(fmt::format("read {} at {} on {}", bytes, from - 0x10000, stream_name(stream)));
    return 0;
  };
  d.copy_on_device = [](DevicePointer, DevicePointer, size_t bytes, void* stream) {
    calls.push_back(fmt::format("copy {} on {}", bytes, stream_name(stream)));
    return 0;
  };
  d.stream_create = [](void** stream, unsigned, int priority) {
    if (priority >= 0) streams = 0;  // of a device the one that computes comes first
    return *stream = handle(100 + streams++), 0;
  };
  d.stream_destroy = [](void*) { return 0; };
  d.stream_query = [](void* stream) { return calls.push_back("await " + stream_name(stream)), 0; };
  d.memory_info = [](size_t* free, size_t* total) { return *free = *total = free_bytes, 0; };
  d.stream_synchronize = [](void* stream) { return calls.push_back("synchronize " + stream_name(stream)), 0; };
  d.stream_wait = [](void* stream, void* event, unsigned) {
    calls.push_back(fmt::format("{} waits for {}", stream_name(stream), reinterpret_cast<intptr_t>(event)));
    return 0;
  };
  d.event_create = [](void** event, unsigned) {
    static intptr_t next = 0;
    return *event = handle(200 + next++ % 2), 0;
  };
  d.event_record = [](void* event, void* stream) {
    calls.push_back(fmt::format("{} records {}", stream_name(stream), reinterpret_cast<intptr_t>(event)));
    return 0;
  };
  d.event_destroy = [](void*) { return 0; };
  d.error_text = [](int, const char** text) { return *text = "out of luck", 0; };
  api.nccl.unique_id = [](NcclUniqueId* id) { return std::memset(id, 7, sizeof *id), 0; };
  api.nccl.version = [](int* version) { return *version = 22809, 0; };
  api.nccl.init_rank = [](void** communicator, int ranks, NcclUniqueId id, int rank, NcclConfig* config) {
    calls.push_back(
        fmt::format("connect rank {} of {} id {} blocking {}", rank, ranks, int(id.bytes[127]), config->blocking));
    return *communicator = handle(300 + rank), nccl_in_progress;
  };
  api.nccl.split = [](void*, int color, int, void** part, NcclConfig*) {
    calls.push_back(fmt::format("split off {}", color));
    return *part = handle(310), 0;
  };
  api.nccl.asynchronous_error = [](void*, int* state) { return *state = 0, 0; };
  api.nccl.finalize = [](void*) { return 0; };
  api.nccl.destroy = [](void*) { return calls.push_back("disconnect"), 0; };
  api.nccl.abort = [](void*) { return calls.push_back("abort"), 0; };
  api.nccl.error_text = [](int) { return "unhandled"; };
  return api;
}

class CudaDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override { calls.clear(), fail_launch = 0; }

  std::unique_ptr<RankDevice> device(StepFunction step, std::vector<int> sending_axes = {}) {
    CudaRank rank;
    rank.rank = 1;
    rank.cubin = "cubin";
    rank.step = std::move(step);
    rank.kernels = {"one", "three"};
    rank.events = 2;
    rank.largest_tensors = {{"wte", int64_t(12) << 20}};
    rank.ranks = std::make_shared<NcclRanks>(api_.nccl, Mesh{{{"dp", 2}}}, std::vector<bool>{true, true});
    rank.ranks->set_sending_axes(std::move(sending_axes));
    return cuda_device(api_, rank);
  }

  Api api_ = make_double();
};

TEST_F(CudaDeviceTest, LoadsKernelsAllocatesAndConnectsAndCleansUp) {
  device([](HetsynthContext*) { return 0; })->allocate(4096);
  EXPECT_THAT(calls, ElementsAre("load cubin", "function one", "function three", "allocate 4096", "allocate 33554432",
                                 "allocate 16", "synchronize compute", "connect rank 1 of 2 id 7 blocking 0",
                                 "disconnect", "free", "free", "free", "release"));
}

TEST_F(CudaDeviceTest, CopiesGoThroughTheComputeStreamAndAreAwaited) {
  auto rank = device([](HetsynthContext*) { return 0; });
  rank->allocate(4096);
  calls.clear();
  std::vector<std::byte> bytes(16);
  rank->write(256, bytes);
  rank->read(512, bytes);
  rank->write(0, {});
  EXPECT_THAT(calls, ElementsAre("write 16 at 256 on compute", "synchronize compute", "read 16 at 512 on compute",
                                 "synchronize compute"));
}

TEST_F(CudaDeviceTest, StepIssuesToItsStreamsAndAwaitsAll) {
  auto rank = device([](HetsynthContext* context) {
    void* none[] = {nullptr};
    int failed = hetsynth_launch(context, 0, 1, 7, 256, 0, none);
    failed |= hetsynth_record(context, 0, 0) | hetsynth_wait(context, 0, 1);
    failed |= hetsynth_device_copy(context, 1, context->arena, context->arena + 64, 32);
    failed |= hetsynth_record(context, 1, 1) | hetsynth_wait(context, 1, 0);
    failed |= hetsynth_nccl_communicator(context, 0) != handle(301);
    return failed;
  });
  rank->allocate(4096);
  calls.clear();
  EXPECT_EQ(rank->step({}), 0);
  EXPECT_THAT(calls, ElementsAre("write 16 at 0 on compute", "launch 5 7x256 on compute", "compute records 200",
                                 "communication waits for 200", "copy 32 on communication", "communication records 201",
                                 "compute waits for 201", "await compute", "await communication"));
}

TEST_F(CudaDeviceTest, AStepOfStagesHasAStreamForEachDirection) {
  auto rank = device(
      [](HetsynthContext* context) {
        int failed = context->rising_stream != handle(102) || context->falling_stream != handle(103);
        failed |= hetsynth_record(context, 0, 0) | hetsynth_wait(context, 0, 2);
        return failed | hetsynth_device_copy(context, 2, context->arena, context->arena + 64, 32);
      },
      {0});
  rank->allocate(4096);
  calls.clear();
  EXPECT_EQ(rank->step({}), 0);
  EXPECT_THAT(
      calls, ElementsAre("write 16 at 0 on compute", "compute records 200", "rising waits for 200", "copy 32 on rising",
                         "await compute", "await communication", "await rising", "await falling"));
}

TEST_F(CudaDeviceTest, FailedLaunchNamesTheKernelAndAbortsTheCommunicators) {
  auto rank = device([](HetsynthContext* context) {
    void* none[] = {nullptr};
    return hetsynth_launch(context, 0, 1, 7, 256, 0, none);
  });
  rank->allocate(4096);
  fail_launch = 2;
  try {
    rank->step({});
    FAIL() << "the failed launch went unnoticed";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("three: out of luck"));
  }
  EXPECT_EQ(calls.back(), "abort");
}

TEST_F(CudaDeviceTest, TooLittleMemoryIsToldBeforeItIsAskedFor) {
  free_bytes = size_t(40) << 20;
  auto rank = device([](HetsynthContext*) { return 0; });
  try {
    rank->allocate(int64_t(16) << 20);
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::failure);
    EXPECT_THAT(error.what(), HasSubstr("GPU 0 has no room for rank 1"));
    EXPECT_THAT(error.what(), HasSubstr("16.0 MiB for its tensors and 32.0 MiB for matrix products"));
    EXPECT_THAT(error.what(), HasSubstr("40.0 MiB free of 40.0 MiB"));
    EXPECT_THAT(error.what(), HasSubstr("wte takes 12.0 MiB"));
  }
  free_bytes = size_t(1) << 30;
  EXPECT_THAT(calls, ::testing::Not(::testing::Contains(HasSubstr("allocate"))));
}

TEST(CudaApi, EverythingIsOptional) {
  const Api& found = api();
  if (!found.has_driver) {
    EXPECT_THAT(found.driver_problem, HasSubstr("driver"));
    EXPECT_FALSE(found.has_nccl);
  }
}

// ---- products ----

/// What cublasLt would compute, in column-major terms.
void multiply(const ColumnMajorProduct& p, int64_t batch, const float* left, const float* right, float* result) {
  auto at = [](const ColumnMajor& matrix, int64_t b, uint64_t i, uint64_t j) {
    if (matrix.transpose) std::swap(i, j);
    EXPECT_LT(i, matrix.rows);
    EXPECT_LT(j, matrix.columns);
    return b * matrix.batch_stride + int64_t(i) + int64_t(j) * matrix.leading;
  };
  uint64_t inner = p.left.transpose ? p.left.rows : p.left.columns;
  EXPECT_EQ(inner, p.right.transpose ? p.right.columns : p.right.rows);
  for (int64_t b = 0; b < batch; ++b)
    for (uint64_t i = 0; i < p.result.rows; ++i)
      for (uint64_t j = 0; j < p.result.columns; ++j) {
        float sum = 0;
        for (uint64_t l = 0; l < inner; ++l) sum += left[at(p.left, b, i, l)] * right[at(p.right, b, l, j)];
        result[at(p.result, b, i, j)] = sum;
      }
}

TEST(DeviceProduct, ColumnMajorFormMeansTheSame) {
  int checked = 0;
  for (int64_t m : {1, 2, 5})
    for (int64_t n : {1, 3})
      for (int64_t k : {1, 4})
        for (int form = 0; form < 8; ++form) {
          ProductShape s{2, m, n, k, m * k, k, 1, k * n, n, 1, m * n, n, 1};
          if (form & 1) s.a_row = 1, s.a_column = m;
          if (form & 2) s.w_row = 1, s.w_column = k;
          if (form & 4) s.c_row = 1, s.c_column = m;
          std::vector<float> a(size_t(2 * m * k)), w(size_t(2 * k * n)), found(size_t(2 * m * n)),
              expected(found.size());
          for (size_t i = 0; i < a.size(); ++i) a[i] = float(i + 1);
          for (size_t i = 0; i < w.size(); ++i) w[i] = float(int(i * 7 % 5) - 2);
          for (int64_t b = 0; b < 2; ++b)
            for (int64_t i = 0; i < m; ++i)
              for (int64_t j = 0; j < n; ++j)
                for (int64_t l = 0; l < k; ++l)
                  expected[size_t(b * s.c_batch + i * s.c_row + j * s.c_column)] +=
                      a[size_t(b * s.a_batch + i * s.a_row + l * s.a_column)] *
                      w[size_t(b * s.w_batch + l * s.w_row + j * s.w_column)];
          ColumnMajorProduct p = column_major(s);
          multiply(p, 2, p.swapped ? w.data() : a.data(), p.swapped ? a.data() : w.data(), found.data());
          EXPECT_EQ(found, expected) << "m " << m << " n " << n << " k " << k << " form " << form;
          ++checked;
        }
  EXPECT_EQ(checked, 96);
}

TEST(DeviceProduct, StridesOfNeitherRowsNorColumnsAreOurFault) {
  ProductShape s{1, 4, 4, 4, 0, 8, 2, 0, 4, 1, 0, 4, 1};
  EXPECT_THROW(column_major(s), InternalError);
}

// ---- agreement with the toolkit's headers ----

TEST(CudaApi, NumbersAndTypesAreThoseOfTheToolkitsHeaders) {
  if (cuda_toolkit().include_directory.empty()) GTEST_SKIP() << "no CUDA headers here";
  std::string source = fmt::format(
      R"(
#include <cublasLt.h>
#include <cuda.h>
#include <nccl.h>
static_assert(CUBLAS_COMPUTE_32F == {} && CUBLAS_COMPUTE_32F_FAST_TF32 == {} && CUDA_R_32F == {} && CUDA_R_16F == {});
static_assert(CUBLASLT_MATMUL_DESC_TRANSA == {} && CUBLASLT_MATMUL_DESC_TRANSB == {});
static_assert(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET == 15 && CU_DEV_RESOURCE_TYPE_SM == 1);
static_assert(sizeof(CUdevResource) == 144 && __builtin_offsetof(CUdevResource, sm.smCount) == 96);
static_assert(CU_GREEN_CTX_DEFAULT_STREAM == 1);
static_assert(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT == {} && CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET == {});
static_assert(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES == {});
static_assert(CUBLASLT_MATMUL_DESC_EPILOGUE == {} && CUBLASLT_MATMUL_DESC_BIAS_POINTER == {});
static_assert(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER == {} && CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD == {});
static_assert(CUBLASLT_EPILOGUE_DEFAULT == {} && CUBLASLT_EPILOGUE_BIAS == {} && CUBLASLT_EPILOGUE_RELU_BIAS == {});
static_assert(CUBLASLT_EPILOGUE_GELU_BIAS == {} && CUBLASLT_EPILOGUE_GELU_AUX_BIAS == {});
static_assert(CUBLASLT_EPILOGUE_DGELU == {} && CUBLASLT_EPILOGUE_DGELU_BGRAD == {} && sizeof(cublasLtEpilogue_t) == sizeof(unsigned));
static_assert(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES == {} && CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES == {});
static_assert(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES == {} && CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES == {});
static_assert(CU_STREAM_NON_BLOCKING == {} && CU_EVENT_DISABLE_TIMING == {});
static_assert(sizeof(cublasLtMatmulHeuristicResult_t) == {} && sizeof(cublasLtMatmulAlgo_t) == 64);
static_assert(sizeof(ncclUniqueId) == {} && sizeof(CUdeviceptr) == 8);
static_assert(CUDA_ERROR_OUT_OF_MEMORY == {} && CUDA_ERROR_NOT_READY == {});
static_assert(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR == {} && CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR == {});
static_assert(ncclInProgress == {} && NCCL_SPLIT_NOCOLOR == {} && CUDA_R_16BF == {});
static_assert(ncclInt32 == 2 && ncclFloat32 == 7 && ncclBfloat16 == 9);
static_assert(ncclSum == 0 && ncclProd == 1 && ncclMax == 2 && ncclMin == 3 && ncclAvg == 4);
static_assert(__builtin_offsetof(ncclConfig_t, blocking) == {} && __builtin_offsetof(ncclConfig_t, netName) == {} &&
              __builtin_offsetof(ncclConfig_t, splitShare) == {});
)",
      compute_32f, compute_32f_tf32, real_32f, real_16f, product_transpose_a, product_transpose_b, layout_batch_count,
      layout_batch_stride, preference_workspace_bytes, product_epilogue, product_bias, product_beside,
      product_beside_leading, epilogue_none, epilogue_bias, epilogue_relu_bias, epilogue_gelu_bias,
      epilogue_gelu_aux_bias, epilogue_dgelu, epilogue_dgelu_bgrad, preference_alignment_a, preference_alignment_b,
      preference_alignment_c, preference_alignment_d, stream_non_blocking, event_disable_timing, sizeof(CublasLtChoice),
      sizeof(NcclUniqueId), out_of_memory, not_ready, attribute_major, attribute_minor, nccl_in_progress, nccl_no_color,
      real_16bf, offsetof(NcclConfig, blocking), offsetof(NcclConfig, network), offsetof(NcclConfig, split_share));
  CompileOptions options;
  options.include_directories = {cuda_toolkit().include_directory};
  CompileResult result = compile_object(source, options);
  if (result.text.find("file not found") != std::string::npos)
    GTEST_SKIP() << "headers are incomplete: " << result.text;
  EXPECT_TRUE(result.ok) << result.text;
}

}  // namespace
}  // namespace hetsynth::cuda
