#include "codegen/cuda/host/standalone_main.h"

namespace hetsynth::codegen::cuda {

const std::string_view standalone_main =
    R"(// Runs one step of a rank's generated program on its GPU: plain matrix products, NCCL where there are several ranks. It is here to read
// and to check the generated source; hetsynth itself runs the same source with cublasLt.
//   ./rank0            one rank
//   ./rank0 & ./rank1  several, in one folder: the first writes nccl_id, which the others wait for
#include <cuda_runtime.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "ranks.h"
#if RANKS > 1
#include <nccl.h>
#endif

// The kernels, and the table that launches find them by.
#include KERNELS
#include KERNEL_TABLE

static cudaStream_t streams[4];  // as the host program numbers them
static std::vector<cudaEvent_t> events;
static void *communicators[8], *host_communicators[8], *leader_communicators[8], *rising_communicators[8], *falling_communicators[8];

static int check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return 0;
  std::fprintf(stderr, "rank %d: %s: %s\n", RANK, call, cudaGetErrorString(error));
  return 1;
}

// --- matrix product -----------------------------------------------------------------------------------------------------------------

struct Strides {
  long batch, row, column;
};

template <class Operand>
__global__ void plain_product(long m, long n, long k, const Operand* a, Strides sa, const Operand* w, Strides sw, float* c, Strides sc,
                              int accumulate) {
  const long at = long(blockIdx.x) * blockDim.x + threadIdx.x, b = blockIdx.y;
  if (at >= m * n) return;
  const long i = at / n, j = at % n;
  float& out = c[b * sc.batch + i * sc.row + j * sc.column];
  float sum = accumulate ? out : 0.0f;
  for (long l = 0; l < k; ++l)
    sum += float(a[b * sa.batch + i * sa.row + l * sa.column]) * float(w[b * sw.batch + l * sw.row + j * sw.column]);
  out = sum;
}

template <class Operand>
static int multiply(long batch, long m, long n, long k, const Operand* a, Strides sa, const Operand* w, Strides sw, float* c, Strides sc,
                    int accumulate) {
  const dim3 grid(unsigned((m * n + 255) / 256), unsigned(batch));
  plain_product<<<grid, 256, 0, streams[0]>>>(m, n, k, a, sa, w, sw, c, sc, accumulate);
  return check(cudaGetLastError(), "matrix product");
}

// --- attention ----------------------------------------------------------------------------------------------------------------------

// Sizes and strides as in the generated host program; a thread has a row of scores, or a column.
struct Attention {
  long batch, heads, key_heads, queries, keys, features, value_features, strides[24];
  float scale;
  int causal;
  __host__ __device__ long rows() const { return batch * heads * queries; }
  // Where features begin, of the tensor by its number: q, k, v, o, gradients by o, q, k, v.
  __device__ long at(int tensor, long b, long head, long position) const {
    return b * strides[3 * tensor] + head * strides[3 * tensor + 1] + position * strides[3 * tensor + 2];
  }
};

static Attention attention(const long* sizes, const long* strides, int count, float scale, int causal) {
  Attention x{sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[6], {}, scale, causal};
  for (int i = 0; i < count; ++i) x.strides[i] = strides[i];
  return x;
}

__device__ float sum_of_products(const bf16* a, const bf16* b, long count) {
  float sum = 0.0f;
  for (long i = 0; i < count; ++i) sum += float(a[i]) * float(b[i]);
  return sum;
}

__global__ void attend(Attention x, const bf16* q, const bf16* k, const bf16* v, bf16* o, float* statistics) {
  const long row = long(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= x.rows()) return;
  const long t = row % x.queries, h = row / x.queries % x.heads, b = row / x.queries / x.heads, g = h / (x.heads / x.key_heads);
  const long seen = x.causal && t + 1 < x.keys ? t + 1 : x.keys;
  float largest = -INFINITY, total = 0.0f;
  for (long s = 0; s < seen; ++s)
    largest = fmaxf(largest, x.scale * sum_of_products(q + x.at(0, b, h, t), k + x.at(1, b, g, s), x.features));
  for (long s = 0; s < seen; ++s)
    total += expf(x.scale * sum_of_products(q + x.at(0, b, h, t), k + x.at(1, b, g, s), x.features) - largest);
  for (long f = 0; f < x.value_features; ++f) {
    float sum = 0.0f;
    for (long s = 0; s < seen; ++s)
      sum += expf(x.scale * sum_of_products(q + x.at(0, b, h, t), k + x.at(1, b, g, s), x.features) - largest) *
             float(v[x.at(2, b, g, s) + f]);
    o[x.at(3, b, h, t) + f] = bf16(sum / total);
  }
  if (statistics) statistics[row] = largest + logf(total);
}

// Of a row and a column: the weight, and the gradient by the score.
__device__ void weight_and_gradient(const Attention& x, long b, long h, long t, long s, const bf16* q, const bf16* k, const bf16* v,
                                    const bf16* o, const float* statistics, const bf16* dy, float* weight, float* gradient) {
  const long g = h / (x.heads / x.key_heads);
  const bool hidden = x.causal && s > t;
  const float score = x.scale * sum_of_products(q + x.at(0, b, h, t), k + x.at(1, b, g, s), x.features);
  *weight = hidden ? 0.0f : expf(score - statistics[(b * x.heads + h) * x.queries + t]);
  const bf16* row = dy + x.at(4, b, h, t);
  *gradient = x.scale * *weight *
              (sum_of_products(row, v + x.at(2, b, g, s), x.value_features) - sum_of_products(row, o + x.at(3, b, h, t), x.value_features));
}

__global__ void gradient_by_queries(Attention x, const bf16* q, const bf16* k, const bf16* v, const bf16* o, const float* statistics,
                                    const bf16* dy, bf16* dq) {
  const long row = long(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= x.rows()) return;
  const long t = row % x.queries, h = row / x.queries % x.heads, b = row / x.queries / x.heads, g = h / (x.heads / x.key_heads);
  for (long f = 0; f < x.features; ++f) {
    float sum = 0.0f, weight, gradient;
    for (long s = 0; s < x.keys; ++s) {
      weight_and_gradient(x, b, h, t, s, q, k, v, o, statistics, dy, &weight, &gradient);
      sum += gradient * float(k[x.at(1, b, g, s) + f]);
    }
    dq[x.at(5, b, h, t) + f] = bf16(sum);
  }
}

__global__ void gradient_by_keys(Attention x, const bf16* q, const bf16* k, const bf16* v, const bf16* o, const float* statistics,
                                 const bf16* dy, bf16* dk, bf16* dv) {
  const long column = long(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= x.batch * x.key_heads * x.keys) return;
  const long s = column % x.keys, g = column / x.keys % x.key_heads, b = column / x.keys / x.key_heads, group = x.heads / x.key_heads;
  const long most = x.features > x.value_features ? x.features : x.value_features;
  for (long f = 0; f < most; ++f) {
    float by_key = 0.0f, by_value = 0.0f, weight, gradient;
    for (long h = g * group; h < (g + 1) * group; ++h)
      for (long t = 0; t < x.queries; ++t) {
        weight_and_gradient(x, b, h, t, s, q, k, v, o, statistics, dy, &weight, &gradient);
        if (f < x.features) by_key += gradient * float(q[x.at(0, b, h, t) + f]);
        if (f < x.value_features) by_value += weight * float(dy[x.at(4, b, h, t) + f]);
      }
    if (f < x.features) dk[x.at(6, b, g, s) + f] = bf16(by_key);
    if (f < x.value_features) dv[x.at(7, b, g, s) + f] = bf16(by_value);
  }
}

// What is done to a product's result before it is used; numbers as in the generated host program.
__global__ void plain_epilogue(long m, long n, float* c, long c_row, int epilogue, float* bias, float* beside) {
  const long column = long(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= n) return;
  const float slope = 0.7978845608f, cubic = 0.044715f;
  float sum = 0.0f;
  for (long place = column; place < m * c_row; place += c_row) {
    const bool slopes = epilogue == 192 || epilogue == 208;
    const float x = slopes ? beside[place] : c[place] + bias[column], t = tanhf(slope * (x + cubic * x * x * x));
    if (slopes)
      sum += c[place] *= 0.5f * (1.0f + t + x * (1.0f - t * t) * slope * (1.0f + 3.0f * cubic * x * x));
    else
      c[place] = epilogue == 4 ? x : epilogue == 6 ? fmaxf(x, 0.0f) : 0.5f * x * (1.0f + t);
    if (epilogue == 164) beside[place] = x;
  }
  if (epilogue == 208) bias[column] = sum;
}

// --- what the generated host program calls -------------------------------------------------------------------------------------------

extern "C" {
extern const int hetsynth_event_count;
int hetsynth_step(HetsynthContext*);

int hetsynth_launch(HetsynthContext*, int stream, int kernel, unsigned blocks, unsigned threads, unsigned shared_bytes, void** arguments) {
  return check(cudaLaunchKernel(kernel_table[kernel], dim3(blocks), dim3(threads), arguments, shared_bytes, streams[stream]), "launch");
}
int hetsynth_device_matmul(HetsynthContext*, long batch, long m, long n, long k, const float* a, long a_batch, long a_row, long a_column,
                           const float* w, long w_batch, long w_row, long w_column, float* c, long c_batch, long c_row, long c_column,
                           int accumulate) {
  return multiply(batch, m, n, k, a, {a_batch, a_row, a_column}, w, {w_batch, w_row, w_column}, c, {c_batch, c_row, c_column}, accumulate);
}
int hetsynth_device_matmul_bf16(HetsynthContext*, long batch, long m, long n, long k, const void* a, long a_batch, long a_row, long a_column,
                                const void* w, long w_batch, long w_row, long w_column, float* c, long c_batch, long c_row, long c_column,
                                int accumulate) {
  return multiply(batch, m, n, k, (const bf16*)a, {a_batch, a_row, a_column}, (const bf16*)w, {w_batch, w_row, w_column}, c,
                  {c_batch, c_row, c_column}, accumulate);
}
int hetsynth_device_matmul_fp16(HetsynthContext*, long batch, long m, long n, long k, const void* a, long a_batch, long a_row, long a_column,
                                const void* w, long w_batch, long w_row, long w_column, float* c, long c_batch, long c_row, long c_column,
                                int accumulate) {
  return multiply(batch, m, n, k, (const fp16*)a, {a_batch, a_row, a_column}, (const fp16*)w, {w_batch, w_row, w_column}, c,
                  {c_batch, c_row, c_column}, accumulate);
}
int hetsynth_device_matmul_then(HetsynthContext*, int operands, long m, long n, long k, const void* a, long a_row, long a_column,
                                const void* w, long w_row, long w_column, float* c, long c_row, int epilogue, float* bias, float* beside) {
  const Strides sa{0, a_row, a_column}, sw{0, w_row, w_column}, sc{0, c_row, 1};
  if (operands == 1   ? multiply(1, m, n, k, (const bf16*)a, sa, (const bf16*)w, sw, c, sc, 0)
      : operands == 2 ? multiply(1, m, n, k, (const fp16*)a, sa, (const fp16*)w, sw, c, sc, 0)
                      : multiply(1, m, n, k, (const float*)a, sa, (const float*)w, sw, c, sc, 0))
    return 1;
  plain_epilogue<<<unsigned((n + 255) / 256), 256, 0, streams[0]>>>(m, n, c, c_row, epilogue, bias, beside);
  return check(cudaGetLastError(), "epilogue");
}
int hetsynth_device_attention(HetsynthContext*, const long* sizes, const long* strides, float scale, int causal, const void* q, const void* k,
                              const void* v, void* o, float* statistics, void*, long) {
  const Attention x = attention(sizes, strides, 12, scale, causal);
  attend<<<unsigned((x.rows() + 255) / 256), 256, 0, streams[0]>>>(x, (const bf16*)q, (const bf16*)k, (const bf16*)v, (bf16*)o, statistics);
  return check(cudaGetLastError(), "attention");
}
int hetsynth_device_attention_gradient(HetsynthContext*, const long* sizes, const long* strides, float scale, int causal, const void* q,
                                       const void* k, const void* v, const void* o, const float* statistics, const void* o_gradient,
                                       void* q_gradient, void* k_gradient, void* v_gradient, void*, long) {
  const Attention x = attention(sizes, strides, 24, scale, causal);
  gradient_by_queries<<<unsigned((x.rows() + 255) / 256), 256, 0, streams[0]>>>(
      x, (const bf16*)q, (const bf16*)k, (const bf16*)v, (const bf16*)o, statistics, (const bf16*)o_gradient, (bf16*)q_gradient);
  const long columns = x.batch * x.key_heads * x.keys;
  gradient_by_keys<<<unsigned((columns + 255) / 256), 256, 0, streams[0]>>>(x, (const bf16*)q, (const bf16*)k, (const bf16*)v, (const bf16*)o,
                                                                            statistics, (const bf16*)o_gradient, (bf16*)k_gradient,
                                                                            (bf16*)v_gradient);
  return check(cudaGetLastError(), "the gradient of attention");
}
int hetsynth_device_copy(HetsynthContext*, int stream, void* to, const void* from, long bytes) {
  return check(cudaMemcpyAsync(to, from, size_t(bytes), cudaMemcpyDeviceToDevice, streams[stream]), "copy");
}
int hetsynth_record(HetsynthContext*, int event, int stream) { return check(cudaEventRecord(events[event], streams[stream]), "record"); }
int hetsynth_wait(HetsynthContext*, int event, int stream) { return check(cudaStreamWaitEvent(streams[stream], events[event], 0), "wait"); }
void* hetsynth_nccl_communicator(HetsynthContext*, int axis) { return communicators[axis]; }
void* hetsynth_nccl_host_communicator(HetsynthContext*, int axis) { return host_communicators[axis]; }
void* hetsynth_nccl_leader_communicator(HetsynthContext*, int axis) { return leader_communicators[axis]; }
void* hetsynth_nccl_rising_communicator(HetsynthContext*, int axis) { return rising_communicators[axis]; }
void* hetsynth_nccl_falling_communicator(HetsynthContext*, int axis) { return falling_communicators[axis]; }
}

// --- communicators ------------------------------------------------------------------------------------------------------------------

#if RANKS > 1
static ncclUniqueId shared_id() {
  ncclUniqueId id;
  if (RANK == 0) {
    ncclGetUniqueId(&id);
    std::FILE* file = std::fopen("nccl_id.new", "wb");
    std::fwrite(&id, sizeof id, 1, file);
    std::fclose(file);
    std::rename("nccl_id.new", "nccl_id");
    return id;
  }
  for (;;) {
    if (std::FILE* file = std::fopen("nccl_id", "rb")) {
      const size_t read = std::fread(&id, sizeof id, 1, file);
      std::fclose(file);
      if (read == 1) return id;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

static int connect() {
  ncclComm_t all;
  if (ncclCommInitRank(&all, RANKS, shared_id(), RANK) != ncclSuccess) return 1;
  if (RANK == 0) std::remove("nccl_id");
  long inside = 1;
  for (int axis = axis_count - 1; axis >= 0; --axis) {
    const long coordinate = RANK / inside % axis_sizes[axis], group = RANK - coordinate * inside;
    ncclComm_t part;
    if (ncclCommSplit(all, int(group), int(coordinate), &part, nullptr) != ncclSuccess) return 1;
    communicators[axis] = part;
    for (int i = 0; sending_axes[i] >= 0; ++i) {
      if (sending_axes[i] != axis) continue;
      for (void** directed : {rising_communicators, falling_communicators}) {
        if (ncclCommSplit(all, int(group), int(coordinate), &part, nullptr) != ncclSuccess) return 1;
        directed[axis] = part;
      }
    }
    inside *= axis_sizes[axis];
  }
  for (int i = 0; levelled_axes[i] >= 0; ++i) {
    const int axis = levelled_axes[i];
    inside = 1;
    for (int a = axis_count - 1; a > axis; --a) inside *= axis_sizes[a];
    const long coordinate = RANK / inside % axis_sizes[axis], group = RANK - coordinate * inside;
    // The first of the group's ranks on a host leads it.
    long leader = coordinate;
    while (leader > 0 && host_of_rank[group + (leader - 1) * inside] == host_of_rank[RANK]) --leader;
    ncclComm_t host, leaders;
    if (ncclCommSplit(all, int(group + leader * inside), int(coordinate), &host, nullptr) != ncclSuccess) return 1;
    const int color = leader == coordinate ? int(group) : NCCL_SPLIT_NOCOLOR;
    if (ncclCommSplit(all, color, int(coordinate), &leaders, nullptr) != ncclSuccess) return 1;
    host_communicators[axis] = host;
    leader_communicators[axis] = leaders;
  }
  return 0;
}
#else
static int connect() { return 0; }
#endif

// --- made-up tensors ----------------------------------------------------------------------------------------------------------------

// The same for every rank: by number of the tensor and position in the whole.
static double uniform(unsigned long number, unsigned long position) {
  unsigned long x = number * 0x9e3779b97f4a7c15ul + position + 1;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ul;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebul;
  return double((x ^ (x >> 31)) >> 11) / 9007199254740992.0;
}

static double starting_value(const Leaf& leaf, unsigned long position) {
  const double u = uniform(2ul * leaf.number, position), v = uniform(2ul * leaf.number + 1, position);
  switch (leaf.start) {
    case 0: return std::floor(u * leaf.value);
    case 1: return leaf.value;
    case 2: return leaf.value * std::sqrt(-2 * std::log(1 - u)) * std::cos(6.283185307179586 * v);
    default: return leaf.value * (2 * u - 1);
  }
}

static void fill(const Leaf& leaf, std::vector<char>& arena) {
  long count = 1;
  for (int d = 0; d < leaf.dims; ++d) count *= leaf.hi[d] - leaf.lo[d];
  for (long i = 0; i < count; ++i) {
    long rest = i, whole = 0, stride = 1;
    for (int d = leaf.dims - 1; d >= 0; --d) {
      const long extent = leaf.hi[d] - leaf.lo[d];
      whole += (leaf.lo[d] + rest % extent) * stride;
      rest /= extent, stride *= leaf.shape[d];
    }
    const double value = starting_value(leaf, (unsigned long)whole);
    if (leaf.integer)
      ((int*)(arena.data() + leaf.offset))[i] = int(value);
    else
      ((float*)(arena.data() + leaf.offset))[i] = float(value);
  }
}

int main() {
  int gpus = 0;
  if (check(cudaGetDeviceCount(&gpus), "cudaGetDeviceCount")) return 1;
  if (check(cudaSetDevice(gpu_of_rank[RANK] % gpus), "cudaSetDevice")) return 1;
  for (cudaStream_t& stream : streams)
    if (check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream")) return 1;
  events.resize(size_t(hetsynth_event_count));
  for (cudaEvent_t& event : events)
    if (check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event")) return 1;
  std::vector<char> host((size_t)arena_bytes[RANK]);
  for (int i = 0; i < leaf_counts[RANK]; ++i) fill(leaves[RANK][i], host);
  char* arena = nullptr;
  if (check(cudaMalloc(&arena, host.size()), "cudaMalloc of the arena")) return 1;
  if (check(cudaMemcpy(arena, host.data(), host.size(), cudaMemcpyHostToDevice), "copy to the GPU")) return 1;
  if (connect()) {
    std::fprintf(stderr, "rank %d: NCCL cannot connect the ranks\n", RANK);
    return 1;
  }
  const long long step_and_seed[2] = {0, 1};
  void* clock = nullptr;
  if (check(cudaMalloc(&clock, sizeof step_and_seed), "cudaMalloc") ||
      check(cudaMemcpy(clock, step_and_seed, sizeof step_and_seed, cudaMemcpyHostToDevice), "copy to the GPU"))
    return 1;
  HetsynthContext context{arena, 0, 1, nullptr, streams[0], streams[1], nullptr, clock, nullptr, streams[2], streams[3]};
  if (hetsynth_step(&context)) return 1;
  if (check(cudaDeviceSynchronize(), "the step")) return 1;
  if (loss_offsets[RANK] < 0) return 0;
  float loss = 0;
  if (check(cudaMemcpy(&loss, arena + loss_offsets[RANK], sizeof loss, cudaMemcpyDeviceToHost), "loss")) return 1;
  std::printf("rank %d: loss %.6g\n", RANK, loss);
  return 0;
}
)";

}  // namespace hetsynth::codegen::cuda
