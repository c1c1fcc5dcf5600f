// Training step of classifier.cpp, rank 1 of 3: device gpu1 (A100, sm_80). Host side.
// Everything is issued in order to streams; the only places where one waits for another are the events below.

typedef long long int64;
struct HetsynthContext {
  char* arena;
  long step;
  unsigned long seed;
  void* communicator;
  void* stream;
  void* communication_stream;
  void* device;
  const void* clock;
  void* trace;
  void* rising_stream;
  void* falling_stream;
};
extern "C" {
int hetsynth_launch(HetsynthContext*, int stream, int kernel, unsigned blocks, unsigned threads, unsigned shared_bytes, void** arguments);
int hetsynth_device_matmul(HetsynthContext*, long batch, long m, long n, long k, const float* a, long a_batch, long a_row, long a_column,
                           const float* w, long w_batch, long w_row, long w_column, float* c, long c_batch, long c_row, long c_column,
                           int accumulate);
int hetsynth_device_matmul_bf16(HetsynthContext*, long batch, long m, long n, long k, const void* a, long a_batch, long a_row, long a_column,
                                const void* w, long w_batch, long w_row, long w_column, float* c, long c_batch, long c_row, long c_column,
                                int accumulate);
int hetsynth_device_matmul_fp16(HetsynthContext*, long batch, long m, long n, long k, const void* a, long a_batch, long a_row, long a_column,
                                const void* w, long w_batch, long w_row, long w_column, float* c, long c_batch, long c_row, long c_column,
                                int accumulate);
int hetsynth_device_matmul_then(HetsynthContext*, int operands, long m, long n, long k, const void* a, long a_row, long a_column,
                                const void* w, long w_row, long w_column, float* c, long c_row, int epilogue, float* bias, float* beside);
int hetsynth_device_copy(HetsynthContext*, int stream, void* to, const void* from, long bytes);
int hetsynth_record(HetsynthContext*, int event, int stream);
int hetsynth_wait(HetsynthContext*, int event, int stream);
void* hetsynth_nccl_communicator(HetsynthContext*, int axis);
int ncclGroupStart();
int ncclGroupEnd();
int ncclAllGather(const void* from, void* to, unsigned long count, int type, void* communicator, void* stream);
int ncclAllReduce(const void* from, void* to, unsigned long count, int type, int op, void* communicator, void* stream);
int ncclReduceScatter(const void* from, void* to, unsigned long count, int type, int op, void* communicator, void* stream);
int ncclBroadcast(const void* from, void* to, unsigned long count, int type, int root, void* communicator, void* stream);
int ncclReduce(const void* from, void* to, unsigned long count, int type, int op, int root, void* communicator, void* stream);
int ncclSend(const void* from, unsigned long count, int type, int peer, void* communicator, void* stream);
int ncclRecv(void* to, unsigned long count, int type, int peer, void* communicator, void* stream);
}
// Numbers of 16 bits: the host moves them without looking at them.
enum bf16 : unsigned short {};
enum fp16 : unsigned short {};
enum { compute_stream = 0, communication_stream = 1, rising_stream = 2, falling_stream = 3 };
// What becomes of a product c before it is stored: c + bias; max(c + bias, 0); gelu(c + bias); the same, and c + bias to beside; c * gelu'(beside);
// the same, and its sums over all rows to bias.
enum { add_bias = 4, add_bias_relu = 6, add_bias_gelu = 36, add_bias_gelu_keep = 164, times_gelu_slope = 192, times_gelu_slope_sum = 208 };
enum { nccl_int32 = 2, nccl_float16 = 6, nccl_float32 = 7, nccl_bfloat16 = 9 };
enum { nccl_sum = 0, nccl_product = 1, nccl_max = 2, nccl_min = 3, nccl_average = 4 };

// One launch; the kernel's arguments follow.
template <class... Argument>
static int launch(HetsynthContext* context, int stream, int kernel, unsigned blocks, unsigned threads, Argument... argument) {
  void* arguments[] = {(void*)&argument..., 0};
  return hetsynth_launch(context, stream, kernel, blocks, threads, 0, arguments);
}

enum {
  kernel_compute_d_t_add = 0,
  kernel_compute_t_mul = 1,
  kernel_compute_d_b = 2,
  kernel_compute_w_next = 3,
  kernel_compute_b_next = 4,
  kernel_count = 5
};
extern "C" {
extern const int hetsynth_kernel_count, hetsynth_event_count;
extern const char* const hetsynth_kernels[];
const int hetsynth_kernel_count = kernel_count, hetsynth_event_count = 4;
const char* const hetsynth_kernels[] = {
    "compute_d_t_add",
    "compute_t_mul",
    "compute_d_b",
    "compute_w_next",
    "compute_b_next",
    0};
}

extern "C" int hetsynth_step(HetsynthContext* context) {
  char* const arena = context->arena;
  (void)arena;
  float* const samples = (float*)(arena + 0);  // f32[11..32 of 64, 12]
  int* const labels = (int*)(arena + 1024);  // i32[11..32 of 64]
  float* const w = (float*)(arena + 1280);  // f32[12, 8]
  float* const b = (float*)(arena + 1792);  // f32[8]
  float* const w_velocity = (float*)(arena + 2048);  // f32[12, 8]
  float* const b_velocity = (float*)(arena + 2560);  // f32[8]
  float* const t_einsum = (float*)(arena + 2816);  // f32[11..32 of 64, 8]
  float* const t_max = (float*)(arena + 4352);  // f32[11..32 of 64]
  float* const t_exp_sum = (float*)(arena + 4608);  // f32[11..32 of 64]
  float* const t_pick = (float*)(arena + 4864);  // f32[11..32 of 64]
  float* const t_mul = (float*)(arena + 2816);  // f32[]
  float* const t_mul_reduced = (float*)(arena + 4352);  // f32[]
  float* const d_t_add = (float*)(arena + 3584);  // f32[11..32 of 64, 8]
  float* const d_b = (float*)(arena + 4608);  // f32[8]
  float* const d_b_reduced = (float*)(arena + 4096);  // f32[8]
  float* const d_w = (float*)(arena + 3072);  // f32[12, 8]
  float* const d_w_reduced = (float*)(arena + 3584);  // f32[12, 8]
  void* const dp_ranks = hetsynth_nccl_communicator(context, 0);

  // cuda_classifier.h:11  t.einsum = einsum(samples, w)
  // [1] x 21 x 8, sums of 12
  if (hetsynth_device_matmul(context, 1, 21, 8, 12, samples, 0, 12, 1, w, 0, 8, 1, t_einsum, 0, 8, 1, 0)) return 1;

  // cuda_classifier.h:11  t.add = add(t.einsum, b)
  // cuda_classifier.h:12  t.max = max(t.add)
  // cuda_classifier.h:12  t.exp_sum = exp_sum(t.add, t.max)
  // cuda_classifier.h:12  t.pick = pick(t.add, labels)
  // cuda_classifier.h:12  d_t.add = cross_entropy_gradient(t.add, t.max, t.exp_sum, labels, d_t.mul)
  if (launch(context, compute_stream, kernel_compute_d_t_add, 1, 256, t_einsum, b, labels, t_max, t_pick, t_exp_sum, d_t_add)) return 1;

  // cuda_classifier.h:12  t.nll_sum = nll_sum(t.exp_sum, t.max, t.pick)
  // cuda_classifier.h:12  t.mul = mul(t.nll_sum)
  if (launch(context, compute_stream, kernel_compute_t_mul, 1, 256, t_exp_sum, t_max, t_pick, t_mul)) return 1;

  // all_reduce t.mul over dp, 8 B received: t.mul is partial over dp; the result of the step is needed whole
  if (hetsynth_record(context, 0, compute_stream) || hetsynth_wait(context, 0, communication_stream)) return 1;
  if (ncclAllReduce(t_mul, t_mul_reduced, 1, nccl_float32, nccl_sum, dp_ranks, context->communication_stream)) return 1;
  if (hetsynth_record(context, 1, communication_stream)) return 1;

  // cuda_classifier.h:11  d_b = sum(d_t.add)
  if (launch(context, compute_stream, kernel_compute_d_b, 1, 256, d_t_add, d_b)) return 1;

  // cuda_classifier.h:11  d_w = einsum(d_t.add, samples)
  // [1] x 8 x 12, sums of 21
  if (hetsynth_device_matmul(context, 1, 8, 12, 21, d_t_add, 0, 1, 8, samples, 0, 12, 1, d_w, 0, 1, 8, 0)) return 1;

  // A bucket of 2 gradients over dp, 832 B received; it starts as soon as the last of them is there:
  // all_reduce d_b over dp, 64 B received: d_b is partial over dp (each device has its share of r0); b.velocity.next needs it whole
  // all_reduce d_w over dp, 768 B received: d_w is partial over dp (each device has its share of m); w.velocity.next needs it whole
  if (hetsynth_record(context, 2, compute_stream) || hetsynth_wait(context, 2, communication_stream)) return 1;
  if (ncclGroupStart()) return 1;
  if (ncclAllReduce(d_b, d_b_reduced, 8, nccl_float32, nccl_sum, dp_ranks, context->communication_stream)) return 1;
  if (ncclAllReduce(d_w, d_w_reduced, 96, nccl_float32, nccl_sum, dp_ranks, context->communication_stream)) return 1;
  if (ncclGroupEnd()) return 1;
  if (hetsynth_record(context, 3, communication_stream)) return 1;

  if (hetsynth_wait(context, 3, compute_stream)) return 1;  // the bucket of d_b_reduced and 1 more has arrived
  // cuda_classifier.h:13  w.velocity.next = sgd_velocity(w.velocity, d_w)
  // cuda_classifier.h:13  w.next = sgd_parameter(w, w.velocity.next)
  if (launch(context, compute_stream, kernel_compute_w_next, 1, 256, w_velocity, d_w_reduced, w)) return 1;

  // cuda_classifier.h:13  b.velocity.next = sgd_velocity(b.velocity, d_b)
  // cuda_classifier.h:13  b.next = sgd_parameter(b, b.velocity.next)
  if (launch(context, compute_stream, kernel_compute_b_next, 1, 256, b_velocity, d_b_reduced, b)) return 1;
  if (hetsynth_wait(context, 1, compute_stream)) return 1;  // t_mul_reduced has arrived
  return 0;
}
