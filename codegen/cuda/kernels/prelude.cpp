#include "codegen/cuda/kernels/prelude.h"

namespace hetsynth::codegen::cuda {

std::string_view prelude() {
  return R"(// ---- common to all kernels ----
#ifdef __CUDACC__
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000ll)
#define __builtin_nanf(text) __int_as_float(0x7fffffff)
#define __builtin_exp exp
#define __builtin_log log
#define __builtin_sqrt sqrt
#define __builtin_tanh tanh
#define __builtin_erf erf
#define __builtin_sin sin
#define __builtin_cos cos
#define __builtin_floor floor
#define __builtin_pow pow
#endif
__device__ __forceinline__ float exp_f32(float a) { return expf(a); }
__device__ __forceinline__ float log_f32(float a) { return logf(a); }
__device__ __forceinline__ float sqrt_f32(float a) { return sqrtf(a); }
__device__ __forceinline__ float tanh_f32(float a) { return tanhf(a); }
__device__ __forceinline__ float erf_f32(float a) { return erff(a); }
__device__ __forceinline__ float sin_f32(float a) { return sinf(a); }
__device__ __forceinline__ float cos_f32(float a) { return cosf(a); }
__device__ __forceinline__ float floor_f32(float a) { return floorf(a); }
__device__ __forceinline__ float power_f32(float a, float b) { return powf(a, b); }
__device__ __forceinline__ float max_f32(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ float min_f32(float a, float b) { return fminf(a, b); }
__device__ __forceinline__ double max_f64(double a, double b) { return a < b ? b : a; }
__device__ __forceinline__ double min_f64(double a, double b) { return b < a ? b : a; }

// The upper half of a float, rounded to nearest, ties to even. Arithmetic is done in float.
struct bf16 {
  unsigned short bits;
  bf16() = default;
  __device__ __forceinline__ explicit bf16(float value) {
    const unsigned word = __float_as_uint(value);
    bits = value == value ? (unsigned short)((word + 0x7fffu + (word >> 16 & 1u)) >> 16) : (unsigned short)0x7fc0;
  }
  __device__ __forceinline__ operator float() const { return __uint_as_float((unsigned)bits << 16); }
};
__device__ __forceinline__ float round_bf16(float value) { return bf16(value); }

// IEEE 754 binary16, rounded and computed with as bf16 is.
struct fp16 {
  unsigned short bits;
  fp16() = default;
  __device__ __forceinline__ explicit fp16(float value) {
#ifdef __CUDA_ARCH__
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    const unsigned word = __float_as_uint(value), magnitude = word & 0x7fffffffu;
    const unsigned normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    const unsigned subnormal = __float_as_uint(__uint_as_float(magnitude) + 0.5f) - 0x3f000000u;
    const unsigned rounded = magnitude < 0x38800000u ? subnormal : magnitude < 0x477ff000u ? normal : 0x7c00u;
    bits = (unsigned short)((magnitude <= 0x7f800000u ? rounded : 0x7e00u) | (word >> 16 & 0x8000u));
#endif
  }
  __device__ __forceinline__ operator float() const {
#ifdef __CUDA_ARCH__
    float out;
    asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(bits));
    return out;
#else
    const unsigned magnitude = ((unsigned)bits & 0x7fffu) << 13, sign = ((unsigned)bits & 0x8000u) << 16;
    const unsigned subnormal = __float_as_uint(__uint_as_float(magnitude + 0x38800000u) - 0.00006103515625f);
    const unsigned above = magnitude < 0xf800000u ? magnitude + 0x38000000u : magnitude + 0x70000000u;
    return __uint_as_float((magnitude < 0x800000u ? subnormal : above) | sign);
#endif
  }
};
__device__ __forceinline__ float round_fp16(float value) { return fp16(value); }

// Four neighbours in one access of 16 bytes, or of 8 where a number has 16 bits.
__device__ __forceinline__ void load4(float* to, const float* from) {
  const float4 four = *reinterpret_cast<const float4*>(from);
  to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
}
__device__ __forceinline__ void load4(int* to, const int* from) {
  const int4 four = *reinterpret_cast<const int4*>(from);
  to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
}
__device__ __forceinline__ void store4(float* to, const float* from) {
  *reinterpret_cast<float4*>(to) = make_float4(from[0], from[1], from[2], from[3]);
}
__device__ __forceinline__ void store4(int* to, const int* from) {
  *reinterpret_cast<int4*>(to) = make_int4(from[0], from[1], from[2], from[3]);
}
template <class Half>
__device__ __forceinline__ void load4(Half* to, const Half* from) {
  const uint2 four = *reinterpret_cast<const uint2*>(from);
  to[0].bits = (unsigned short)four.x, to[1].bits = (unsigned short)(four.x >> 16);
  to[2].bits = (unsigned short)four.y, to[3].bits = (unsigned short)(four.y >> 16);
}
template <class Half>
__device__ __forceinline__ void store4(Half* to, const Half* from) {
  *reinterpret_cast<uint2*>(to) = make_uint2((unsigned)from[0].bits | (unsigned)from[1].bits << 16,
                                             (unsigned)from[2].bits | (unsigned)from[3].bits << 16);
}

// Reductions always combine in the same order, so that a step gives the same bits every time. All threads of the warp or block take part
// and all get the result.
__device__ __forceinline__ float warp_sum(float value) {
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_down_sync(0xffffffffu, value, distance);
  return __shfl_sync(0xffffffffu, value, 0);
}
__device__ __forceinline__ float warp_max(float value) {
  for (int distance = 16; distance > 0; distance /= 2) value = max_f32(value, __shfl_down_sync(0xffffffffu, value, distance));
  return __shfl_sync(0xffffffffu, value, 0);
}
// The 16 lanes of each half of a warp.
__device__ __forceinline__ float lanes16_sum(float value) {
  for (int distance = 8; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}
__device__ __forceinline__ float lanes16_max(float value) {
  for (int distance = 8; distance > 0; distance /= 2) value = max_f32(value, __shfl_xor_sync(0xffffffffu, value, distance));
  return value;
}
// The four lanes that hold a row of a fragment (below).
__device__ __forceinline__ float lanes4_sum(float value) {
  for (int distance = 2; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}
__device__ __forceinline__ float lanes4_max(float value) {
  for (int distance = 2; distance > 0; distance /= 2) value = max_f32(value, __shfl_xor_sync(0xffffffffu, value, distance));
  return value;
}
__device__ inline float block_sum(float value) {
  __shared__ float warps[32];
  value = warp_sum(value);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  value = warps[0];
  for (int warp = 1; warp < (int)blockDim.x / 32; ++warp) value += warps[warp];
  __syncthreads();
  return value;
}
__device__ inline float block_max(float value) {
  __shared__ float warps[32];
  value = warp_max(value);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  value = warps[0];
  for (int warp = 1; warp < (int)blockDim.x / 32; ++warp) value = max_f32(value, warps[warp]);
  __syncthreads();
  return value;
}
// The same lane of all warps of a block: 32 results, each combined over warps in their order.
__device__ inline float stacked_sum(float value) {
  __shared__ float warps[32][32];
  warps[threadIdx.x / 32][threadIdx.x % 32] = value;
  __syncthreads();
  value = warps[0][threadIdx.x % 32];
  for (int warp = 1; warp < (int)blockDim.x / 32; ++warp) value += warps[warp][threadIdx.x % 32];
  __syncthreads();
  return value;
}
__device__ inline float stacked_max(float value) {
  __shared__ float warps[32][32];
  warps[threadIdx.x / 32][threadIdx.x % 32] = value;
  __syncthreads();
  value = warps[0][threadIdx.x % 32];
  for (int warp = 1; warp < (int)blockDim.x / 32; ++warp) value = max_f32(value, warps[warp][threadIdx.x % 32]);
  __syncthreads();
  return value;
}

// Lists the threads whose `hit` holds, in order of the thread; returns their number to all. Mostly there are none.
__device__ inline int collect_hits(bool hit, int* list) {
  __shared__ int counts[32];
  if (!__syncthreads_or(hit)) return 0;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned votes = __ballot_sync(0xffffffffu, hit);
  if (lane == 0) counts[warp] = __popc(votes);
  __syncthreads();
  int before = 0, total = 0;
  for (int other = 0; other < (int)blockDim.x / 32; ++other) {
    if (other < warp) before += counts[other];
    total += counts[other];
  }
  if (hit) list[before + __popc(votes & ((1u << lane) - 1))] = threadIdx.x;
  __syncthreads();
  return total;
}

// exp to about 2^-20 of itself: for what is rounded to 16 bits afterwards.
__device__ __forceinline__ float exp_fast_f32(float a) {
#if __CUDA_ARCH__ >= 800
  return __expf(a);
#else
  return expf(a);
#endif
}
// Eight neighbours in one access of 16 bytes.
template <class Half>
__device__ __forceinline__ void copy8(Half* to, const Half* from) {
  *reinterpret_cast<int4*>(to) = *reinterpret_cast<const int4*>(from);
}

// Tensor cores, for bf16 of sm_80 and later, for fp16 of sm_75: a warp multiplies 16 x 16 by 16 x 8 elements and adds to 16 x 8 floats. Lane
// 4 q + p has, of what it multiplies and adds to, rows q and q + 8 of the left operand and of the sum, and column q of
// the right operand. In these it has, by element i of its fragment:
//   left (8):  row q + i / 2 % 2 * 8, column 2 p + i % 2 + i / 4 * 8
//   right (4): row 2 p + i % 2 + i / 2 * 8, column q
//   sum (4):   row q + i / 2 * 8, column 2 p + i % 2
// All lanes of the warp take part. Tiles lie in shared memory, rows `stride` elements apart, each on 16 bytes.
#if !defined(EMULATED_TENSOR_CORES) && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 750)
template <class Half>
__device__ __forceinline__ void unpack_fragment(Half* to, unsigned a, unsigned b, unsigned c, unsigned d) {
  to[0].bits = (unsigned short)a, to[1].bits = (unsigned short)(a >> 16);
  to[2].bits = (unsigned short)b, to[3].bits = (unsigned short)(b >> 16);
  to[4].bits = (unsigned short)c, to[5].bits = (unsigned short)(c >> 16);
  to[6].bits = (unsigned short)d, to[7].bits = (unsigned short)(d >> 16);
}
template <class Half>
__device__ __forceinline__ unsigned fragment_pair(const Half* two) {
  return (unsigned)two[0].bits | (unsigned)two[1].bits << 16;
}
// A left operand from a tile of its rows.
template <class Half>
__device__ __forceinline__ void load_left(Half* to, const Half* tile, int stride) {
#if __CUDA_ARCH__ >= 750
  const int lane = threadIdx.x % 32;
  unsigned a, b, c, d;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
               : "r"((unsigned)__cvta_generic_to_shared(tile + lane % 16 * stride + lane / 16 * 8))
               : "memory");
  unpack_fragment(to, a, b, c, d);
#endif
}
// Two right operands, side by side, from a tile of their columns: its row n is column n.
template <class Half>
__device__ __forceinline__ void load_right(Half* to, const Half* tile, int stride) {
#if __CUDA_ARCH__ >= 750
  const int lane = threadIdx.x % 32;
  unsigned a, b, c, d;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
               : "r"((unsigned)__cvta_generic_to_shared(tile + (lane / 16 * 8 + lane % 8) * stride + lane / 8 % 2 * 8))
               : "memory");
  unpack_fragment(to, a, b, c, d);
#endif
}
// The same from a tile of their rows.
template <class Half>
__device__ __forceinline__ void load_right_by_rows(Half* to, const Half* tile, int stride) {
#if __CUDA_ARCH__ >= 750
  const int lane = threadIdx.x % 32;
  unsigned a, b, c, d;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
               : "r"((unsigned)__cvta_generic_to_shared(tile + lane % 16 * stride + lane / 16 * 8))
               : "memory");
  unpack_fragment(to, a, b, c, d);
#endif
}
// Adds left x right to the sum.
__device__ __forceinline__ void mma_bf16(float* sum, const bf16* left, const bf16* right) {
#if __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
               : "r"(fragment_pair(left)), "r"(fragment_pair(left + 2)), "r"(fragment_pair(left + 4)),
                 "r"(fragment_pair(left + 6)), "r"(fragment_pair(right)), "r"(fragment_pair(right + 2)));
#endif
}
__device__ __forceinline__ void mma_fp16(float* sum, const fp16* left, const fp16* right) {
#if __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
               : "r"(fragment_pair(left)), "r"(fragment_pair(left + 2)), "r"(fragment_pair(left + 4)),
                 "r"(fragment_pair(left + 6)), "r"(fragment_pair(right)), "r"(fragment_pair(right + 2)));
#elif __CUDA_ARCH__ >= 750
  // Half as deep at a time: the fragments are those of the first eight columns of the left operand, then of the last.
  for (int half = 0; half < 2; ++half)
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(fragment_pair(left + 4 * half)), "r"(fragment_pair(left + 4 * half + 2)),
                   "r"(fragment_pair(right + 2 * half)));
#endif
}
// Two neighbours of a fragment.
__device__ __forceinline__ void round2(bf16* to, const float* from) {
#if __CUDA_ARCH__ >= 800
  unsigned two;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(from[1]), "f"(from[0]));
  to[0].bits = (unsigned short)two, to[1].bits = (unsigned short)(two >> 16);
#endif
}
__device__ __forceinline__ void round2(fp16* to, const float* from) { to[0] = fp16(from[0]), to[1] = fp16(from[1]); }
#endif

// Uniform in [0, 1) with 24 bits: Philox 4x32 with 10 rounds (Salmon et al. 2011), key: the seed; counter: element, step, stream.
__device__ inline float philox_uniform(unsigned long long seed, unsigned stream, unsigned long long element, unsigned long long step) {
  unsigned key0 = (unsigned)seed, key1 = (unsigned)(seed >> 32);
  unsigned word0 = (unsigned)element, word1 = (unsigned)(element >> 32), word2 = (unsigned)step, word3 = stream;
  for (int round = 0; round < 10; ++round) {
    const unsigned long long product0 = 0xD2511F53ull * word0, product1 = 0xCD9E8D57ull * word2;
    word0 = (unsigned)(product1 >> 32) ^ word1 ^ key0;
    word1 = (unsigned)product1;
    word2 = (unsigned)(product0 >> 32) ^ word3 ^ key1;
    word3 = (unsigned)product0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return (float)(word0 >> 8) * (1.0f / 16777216.0f);
}
)";
}

}  // namespace hetsynth::codegen::cuda
