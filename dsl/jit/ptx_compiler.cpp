#include "dsl/jit/ptx_compiler.h"

#include <clang/CodeGen/CodeGenAction.h>
#include <llvm/Support/TargetSelect.h>

#include <mutex>

#include "dsl/jit/clang_session.h"

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace hetsynth {
namespace {

constexpr const char* shim_name = "hetsynth_cuda_shim.h";

/// The words of CUDA C++ that kernels use, in terms of Clang's attributes, builtins and libdevice: what NVRTC has built
/// in.
constexpr std::string_view shim = R"(#pragma clang system_header
#define __CUDACC__ 1
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))

#define SPECIAL_REGISTER(Name, name, register)                                                  \
  struct Name {                                                                                 \
    struct X {                                                                                  \
      __device__ __forceinline__ operator unsigned() const { return __nvvm_read_ptx_sreg_##register##_x(); } \
    } x;                                                                                        \
  };                                                                                            \
  static __device__ constexpr Name name{};
SPECIAL_REGISTER(ThreadIndex, threadIdx, tid)
SPECIAL_REGISTER(BlockIndex, blockIdx, ctaid)
SPECIAL_REGISTER(BlockSize, blockDim, ntid)
SPECIAL_REGISTER(GridSize, gridDim, nctaid)
#undef SPECIAL_REGISTER

#define __popc(bits) __builtin_popcount(bits)
#define __ballot_sync(mask, vote) __nvvm_vote_ballot_sync(mask, vote)
#define __syncthreads_or(vote) __nvvm_bar0_or(vote)
static __device__ __forceinline__ float __shfl_sync(unsigned mask, float value, int lane) {
  return __nvvm_shfl_sync_idx_f32(mask, value, lane, 31);
}
static __device__ __forceinline__ float __shfl_down_sync(unsigned mask, float value, int distance) {
  return __nvvm_shfl_sync_down_f32(mask, value, distance, 31);
}
static __device__ __forceinline__ float __shfl_xor_sync(unsigned mask, float value, int lanes) {
  return __nvvm_shfl_sync_bfly_f32(mask, value, lanes, 31);
}
static __device__ __forceinline__ float __uint_as_float(unsigned bits) { return __builtin_bit_cast(float, bits); }
static __device__ __forceinline__ float __int_as_float(int bits) { return __builtin_bit_cast(float, bits); }
static __device__ __forceinline__ unsigned __float_as_uint(float value) { return __builtin_bit_cast(unsigned, value); }
static __device__ __forceinline__ double __longlong_as_double(long long bits) { return __builtin_bit_cast(double, bits); }

struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
static __device__ __forceinline__ float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static __device__ __forceinline__ int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
static __device__ __forceinline__ uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }

#define FUNCTION(name)                                \
  extern "C" __device__ float __nv_##name##f(float); \
  extern "C" __device__ double __nv_##name(double);
FUNCTION(exp)
FUNCTION(log)
FUNCTION(sqrt)
FUNCTION(tanh)
FUNCTION(erf)
FUNCTION(sin)
FUNCTION(cos)
FUNCTION(floor)
#undef FUNCTION
extern "C" __device__ float __nv_powf(float, float);
extern "C" __device__ double __nv_pow(double, double);
extern "C" __device__ float __nv_fmaxf(float, float);
extern "C" __device__ float __nv_fminf(float, float);
#define expf __nv_expf
#define logf __nv_logf
#define sqrtf __nv_sqrtf
#define tanhf __nv_tanhf
#define erff __nv_erff
#define sinf __nv_sinf
#define cosf __nv_cosf
#define floorf __nv_floorf
#define powf __nv_powf
#define fmaxf __nv_fmaxf
#define fminf __nv_fminf
#define exp __nv_exp
#define log __nv_log
#define sqrt __nv_sqrt
#define tanh __nv_tanh
#define erf __nv_erf
#define sin __nv_sin
#define cos __nv_cos
#define floor __nv_floor
#define pow __nv_pow
)";

void initialize_target() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
}

}  // namespace

const std::vector<std::string>& ptx_architectures() {
  static const std::vector<std::string> list = {"sm_60", "sm_61", "sm_70"};
  return list;
}

CompileResult compile_ptx(std::string_view source, const std::string& name, const std::string& architecture,
                          const std::string& device_library) {
  initialize_target();
  CompileOptions options;
  options.file_name = name;
  options.files = {{shim_name, shim}};
  // -O3 with fused multiply-add, as NVRTC has it. PTX 6.3: the first with all that is used, known to drivers since
  // 2018.
  options.frontend_arguments = {"-triple",
                                "nvptx64-nvidia-cuda",
                                "-aux-triple",
                                "x86_64-unknown-linux-gnu",
                                "-S",
                                "-O3",
                                "-fcuda-is-device",
                                "-ffp-contract=fast",
                                "-target-cpu",
                                architecture,
                                "-target-feature",
                                "+ptx63",
                                "-mlink-builtin-bitcode",
                                device_library,
                                "-std=c++17",
                                "-Wno-builtin-macro-redefined",
                                "-include",
                                shim_name,
                                "-x",
                                "cuda",
                                name};
  clang::EmitAssemblyAction action;
  return run_clang_to_object(source, options, action);
}

}  // namespace hetsynth
