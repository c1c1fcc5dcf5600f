// The border between generated programs and the runtime: plain C, so that generated source includes nothing and builds
// anywhere. Generated source declares these functions itself; the runtime defines them (runtime/abi_*.cpp, and the
// stand-alone project's support file).
#pragma once
#include <cstdint>

extern "C" {

/// What a step needs from its caller. The layout is part of the generated text: append only.
struct HetsynthContext {
  char* arena;   ///< this rank's memory, 64-byte aligned, `DeviceProgram::arena_bytes` long
  int64_t step;  ///< 0 for the first
  uint64_t seed;
  void* communicator;          ///< opaque to generated code
  void* stream;                ///< cuda: compute stream
  void* communication_stream;  ///< cuda
  void* device = nullptr;      ///< cuda: the runtime's state of the device, opaque to generated code
  /// cuda, on the device: step, then seed, of eight bytes each. Kernels read them there, so that a recorded step can be
  /// replayed.
  const void* clock = nullptr;
  void* trace = nullptr;  ///< where hetsynth_mark notes the time; null: nowhere
  /// cuda: of what stages send to those of higher coordinates, and of lower ones.
  void *rising_stream = nullptr, *falling_stream = nullptr;
};

/// Entry point of a generated program: one training step. 0: done; anything else: a collective was aborted.
typedef int (*HetsynthStep)(HetsynthContext* context);

/// c[b,m,n] = sum_k a[b,m,k] * w[b,k,n] (+ previous c if accumulate), float32; strides in elements per (batch, row,
/// column) of each operand. A batch stride of 0 repeats the operand.
void hetsynth_matmul(int64_t batch, int64_t m, int64_t n, int64_t k, const float* a, int64_t a_batch, int64_t a_row,
                     int64_t a_column, const float* w, int64_t w_batch, int64_t w_row, int64_t w_column, float* c,
                     int64_t c_batch, int64_t c_row, int64_t c_column, int accumulate);

/// One of image [batch, groups * channels, height, width], kernel [groups * outputs, channels, ...] and result [batch,
/// groups * outputs, ...] from the other two, float32, as the sum of all products that meet at
///   image position = result position * stride + kernel position * dilation - padding,
/// positions outside of the tensors giving nothing. `computes`: 0 image, 1 kernel, 2 result. sizes = {batch, groups,
/// channels, outputs (of a group), then of height and of width: image, kernel, result, stride, dilation, padding}; the
/// padding may be negative. strides: of the four dimensions of image, kernel and result, in elements.
void hetsynth_convolution(int computes, const int64_t* sizes, const int64_t* strides, float* image, float* kernel,
                          float* result);

/// These do the same with a and w of bf16 (the upper halves of floats) or of fp16 (IEEE 754 binary16); sums and c are
/// float32.
void hetsynth_matmul_bf16(int64_t batch, int64_t m, int64_t n, int64_t k, const void* a, int64_t a_batch, int64_t a_row,
                          int64_t a_column, const void* w, int64_t w_batch, int64_t w_row, int64_t w_column, float* c,
                          int64_t c_batch, int64_t c_row, int64_t c_column, int accumulate);
void hetsynth_matmul_fp16(int64_t batch, int64_t m, int64_t n, int64_t k, const void* a, int64_t a_batch, int64_t a_row,
                          int64_t a_column, const void* w, int64_t w_batch, int64_t w_row, int64_t w_column, float* c,
                          int64_t c_batch, int64_t c_row, int64_t c_column, int accumulate);

/// Here begins the piece of the step with this number (MarkedWork in codegen/interface/device_program.h), in this turn
/// of the loop around it, 0 outside of loops. Texts call it in runs that are measured, and only there. It computes
/// nothing.
void hetsynth_mark(HetsynthContext*, int work, int64_t turn);

/// Collectives over the ranks of a mesh axis. `id` numbers the instruction: all ranks of the group must meet in the
/// same one. Element type 0 = f32, 1 = i32, 2 = bf16, 3 = fp16 (both reduced in float32, then rounded); `reduce`: 0
/// sum, 1 max, 2 average, 3 min, 4 product. `bounds` has group size + 1 entries, in ELEMENTS of the cut dimension; a
/// tensor cut in the dimension is [outer, extent, inner] row-major. All return 0, or non-zero if the run is being
/// aborted. Source and destination do not overlap.
int hetsynth_all_gather(HetsynthContext*, int id, int axis, const void* source, void* destination, int64_t outer,
                        int64_t inner, const int64_t* bounds, int type);
int hetsynth_all_reduce(HetsynthContext*, int id, int axis, const void* source, void* destination, int64_t count,
                        int reduce, int type);
int hetsynth_reduce_scatter(HetsynthContext*, int id, int axis, const void* source, void* destination, int64_t outer,
                            int64_t inner, const int64_t* bounds, int reduce, int type);
/// The next `members` collectives, of which the first has this number, are carried out together and beside what
/// follows, until hetsynth_end of the same number: by then their destinations are there, and their sources may be
/// overwritten. Several members are all_gathers, all_reduces and reduce_scatters over one axis, none hierarchical, of
/// which none reads what another writes.
int hetsynth_begin(HetsynthContext*, int id, int members);
int hetsynth_end(HetsynthContext*, int id);
/// The whole tensor is [outer, first, middle, second, inner]. from_first: the source is cut in `first` by bounds_from
/// and the destination in `second` by bounds_to; otherwise the source is cut in `second` and the destination in
/// `first`. extents = {outer, first, middle, second, inner}.
int hetsynth_all_to_all(HetsynthContext*, int id, int axis, const void* source, void* destination,
                        const int64_t* extents, int from_first, const int64_t* bounds_from, const int64_t* bounds_to,
                        int type);
/// The tensor is [outer, bounds.back(), inner]. Every rank gets its part of it together with the `before` elements of
/// the dimension in front of it and the `after` elements behind it, as far as the tensor goes, from whichever ranks
/// hold them: its part may be smaller than those. A rank whose own part is empty gets nothing.
int hetsynth_halo_exchange(HetsynthContext*, int id, int axis, const void* source, void* destination, int64_t outer,
                           int64_t inner, const int64_t* bounds, int64_t before, int64_t after, int type);
int hetsynth_broadcast(HetsynthContext*, int id, int axis, const void* source, void* destination, int64_t count,
                       int root, int type);
/// The same within hosts first and between them afterwards (dsl/spmd/hosts.h): by coordinate along the axis, `hosts`
/// has the number of the rank's host in the group, from 0, never decreasing. Reductions add up in every host, round to
/// the type, and add up the hosts' results; none of them is an average.
int hetsynth_hierarchical_all_gather(HetsynthContext*, int id, int axis, const void* source, void* destination,
                                     int64_t outer, int64_t inner, const int64_t* bounds, int type,
                                     const int64_t* hosts);
int hetsynth_hierarchical_all_reduce(HetsynthContext*, int id, int axis, const void* source, void* destination,
                                     int64_t count, int reduce, int type, const int64_t* hosts);
int hetsynth_hierarchical_reduce_scatter(HetsynthContext*, int id, int axis, const void* source, void* destination,
                                         int64_t outer, int64_t inner, const int64_t* bounds, int reduce, int type,
                                         const int64_t* hosts);
int hetsynth_hierarchical_all_to_all(HetsynthContext*, int id, int axis, const void* source, void* destination,
                                     const int64_t* extents, int from_first, const int64_t* bounds_from,
                                     const int64_t* bounds_to, int type, const int64_t* hosts);
int hetsynth_hierarchical_broadcast(HetsynthContext*, int id, int axis, const void* source, void* destination,
                                    int64_t count, int root, int type, const int64_t* hosts);
/// A value from coordinate `from` of the axis to coordinate `to`; the other ranks of the group take no part. The sender
/// comes back when the receiver has it.
int hetsynth_send(HetsynthContext*, int id, int axis, const void* source, int64_t count, int to, int type);
int hetsynth_receive(HetsynthContext*, int id, int axis, void* destination, int64_t count, int from, int type);

// Programs of cuda devices. Everything is issued in order to one of four streams, 0: compute, 1: communication, 2 and
// 3: sends to higher coordinates and to lower ones, and runs later; pointers are of the device. All return 0, or
// non-zero if the step cannot go on. Generated host programs call NCCL by its own names (ncclGroupStart, ncclBroadcast,
// ...) and also define
//   extern "C" const int hetsynth_kernel_count, hetsynth_event_count;
//   extern "C" const char* const hetsynth_kernels[];   // names in the kernels file, in the order of their numbers

/// Launches a kernel by its number. `arguments`: addresses of the values of its parameters (8 bytes each), then a
/// null pointer.
int hetsynth_launch(HetsynthContext*, int stream, int kernel, unsigned blocks, unsigned threads, unsigned shared_bytes,
                    void** arguments);
/// As hetsynth_matmul, on the compute stream. In every operand one of the row and column strides is 1 (or the extent
/// is).
int hetsynth_device_matmul(HetsynthContext*, int64_t batch, int64_t m, int64_t n, int64_t k, const float* a,
                           int64_t a_batch, int64_t a_row, int64_t a_column, const float* w, int64_t w_batch,
                           int64_t w_row, int64_t w_column, float* c, int64_t c_batch, int64_t c_row, int64_t c_column,
                           int accumulate);
/// These do the same with a and w of bf16 or fp16; sums and c are float32.
int hetsynth_device_matmul_bf16(HetsynthContext*, int64_t batch, int64_t m, int64_t n, int64_t k, const void* a,
                                int64_t a_batch, int64_t a_row, int64_t a_column, const void* w, int64_t w_batch,
                                int64_t w_row, int64_t w_column, float* c, int64_t c_batch, int64_t c_row,
                                int64_t c_column, int accumulate);
int hetsynth_device_matmul_fp16(HetsynthContext*, int64_t batch, int64_t m, int64_t n, int64_t k, const void* a,
                                int64_t a_batch, int64_t a_row, int64_t a_column, const void* w, int64_t w_batch,
                                int64_t w_row, int64_t w_column, float* c, int64_t c_batch, int64_t c_row,
                                int64_t c_column, int accumulate);
/// c = f(a w), what f does being done before anything is stored; c is row-major with rows c_row elements apart.
/// `operands`: a and w are 0 float32, 1 bf16, 2 fp16; in both of them one of the strides is 1 (or the extent is).
/// epilogue, numbered as cublasLtEpilogue_t: 4: c + bias; 6: max(c + bias, 0); 36: gelu(c + bias), by the tanh
/// approximation; 164: the same, and c + bias to `beside`; 192: c times the slope of gelu at `beside`; 208: the same,
/// and the sums of its columns to `bias`. bias: n elements. beside: as c, which has rows of a multiple of 8 then. Both
/// are null where they are not used.
int hetsynth_device_matmul_then(HetsynthContext*, int operands, int64_t m, int64_t n, int64_t k, const void* a,
                                int64_t a_row, int64_t a_column, const void* w, int64_t w_row, int64_t w_column,
                                float* c, int64_t c_row, int epilogue, float* bias, float* beside);
/// o = softmax(scale q k^T) v through cuDNN, on the compute stream. q, k, v and o are bf16 [batch, heads, positions,
/// features], features one behind the other, at multiples of 16 bytes; sums are float32. Query head h sees key head h /
/// (heads / key_heads); `causal`: a query sees the keys up to its own position. sizes = {batch, heads, key_heads,
/// queries, keys, features, features of v and o}; strides: of batch, head and position of q, k, v and o, in elements.
/// statistics: float32 [batch, heads, queries], of each row of scores the logarithm of the sum of their exponentials;
/// null: not wanted.
int hetsynth_device_attention(HetsynthContext*, const int64_t* sizes, const int64_t* strides, float scale, int causal,
                              const void* q, const void* k, const void* v, void* o, float* statistics, void* workspace,
                              int64_t workspace_bytes);
/// The gradients by q, k and v, from what that call left and the gradient by o; strides are followed by those of the
/// gradients by o, q, k and v. Blocks add to the gradient by q in no fixed order: its last bits may differ from run to
/// run.
int hetsynth_device_attention_gradient(HetsynthContext*, const int64_t* sizes, const int64_t* strides, float scale,
                                       int causal, const void* q, const void* k, const void* v, const void* o,
                                       const float* statistics, const void* o_gradient, void* q_gradient,
                                       void* k_gradient, void* v_gradient, void* workspace, int64_t workspace_bytes);
int hetsynth_device_copy(HetsynthContext*, int stream, void* to, const void* from, int64_t bytes);
/// Events are numbered from 0. A stream that waits goes on when the stream that recorded has come to where it recorded
/// last.
int hetsynth_record(HetsynthContext*, int event, int stream);
int hetsynth_wait(HetsynthContext*, int event, int stream);
/// The ncclComm_t over this rank's group along a mesh axis; ranks in it are coordinates.
void* hetsynth_nccl_communicator(HetsynthContext*, int axis);
/// For hierarchical collectives along the axis: over the ranks of the group on this rank's host, their leader first,
/// and over the leaders of the group's hosts, in order. Null for a rank that is the only one, or leads no host.
void* hetsynth_nccl_host_communicator(HetsynthContext*, int axis);
void* hetsynth_nccl_leader_communicator(HetsynthContext*, int axis);
/// These are further communicators over the ranks of hetsynth_nccl_communicator: stages send over the first to higher
/// coordinates, over the second to lower ones.
void* hetsynth_nccl_rising_communicator(HetsynthContext*, int axis);
void* hetsynth_nccl_falling_communicator(HetsynthContext*, int axis);

}  // extern "C"
