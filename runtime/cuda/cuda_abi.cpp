// Functions of codegen/interface/abi.h that host programs of cuda devices call, and NCCL's under their own names.
#include <optional>
#include <vector>

#include "runtime/cuda/cuda_device_state.h"

using hetsynth::cuda::CudaDevice;
using hetsynth::cuda::Nccl;
using hetsynth::cuda::ProductType;

namespace {

/// As codegen/interface/abi.h numbers them.
constexpr ProductType operand_types[] = {ProductType::f32, ProductType::bf16, ProductType::fp16};

CudaDevice& device_of(HetsynthContext* context) { return *static_cast<CudaDevice*>(context->device); }

/// NCCL's functions know no context: one thread issues one rank's step.
CudaDevice& device() { return *CudaDevice::issuing(); }

int group_start() { return device().group_start(); }
int group_end() { return device().group_end(); }

/// One call of NCCL, by its name. Within a group what it takes is that of the group.
template <class Call>
int collective(const char* name, const void* stream, const Call& call) {
  std::optional<CudaDevice::Timed> timed;
  if (device().in_group())
    device().time_group(device().number_of(stream));
  else
    timed.emplace(device(), hetsynth::TimedWork::Kind::transfer, device().number_of(stream), name);
  return device().nccl_done(call(device().nccl()), name);
}

int all_gather(const void* from, void* to, size_t count, int type, void* communicator, void* stream) {
  return collective("ncclAllGather", stream,
                    [&](const Nccl& nccl) { return nccl.all_gather(from, to, count, type, communicator, stream); });
}
int all_reduce(const void* from, void* to, size_t count, int type, int op, void* communicator, void* stream) {
  return collective("ncclAllReduce", stream,
                    [&](const Nccl& nccl) { return nccl.all_reduce(from, to, count, type, op, communicator, stream); });
}
int reduce_scatter(const void* from, void* to, size_t count, int type, int op, void* communicator, void* stream) {
  return collective("ncclReduceScatter", stream, [&](const Nccl& nccl) {
    return nccl.reduce_scatter(from, to, count, type, op, communicator, stream);
  });
}
int broadcast(const void* from, void* to, size_t count, int type, int root, void* communicator, void* stream) {
  return collective("ncclBroadcast", stream, [&](const Nccl& nccl) {
    return nccl.broadcast(from, to, count, type, root, communicator, stream);
  });
}
int reduce(const void* from, void* to, size_t count, int type, int op, int root, void* communicator, void* stream) {
  return collective("ncclReduce", stream, [&](const Nccl& nccl) {
    return nccl.reduce(from, to, count, type, op, root, communicator, stream);
  });
}
int send(const void* from, size_t count, int type, int peer, void* communicator, void* stream) {
  return collective("ncclSend", stream,
                    [&](const Nccl& nccl) { return nccl.send(from, count, type, peer, communicator, stream); });
}
int receive(void* to, size_t count, int type, int peer, void* communicator, void* stream) {
  return collective("ncclRecv", stream,
                    [&](const Nccl& nccl) { return nccl.receive(to, count, type, peer, communicator, stream); });
}

/// As codegen/interface/abi.h has sizes and strides.
hetsynth::cuda::AttentionShape attention_shape(bool backward, const int64_t* sizes, const int64_t* strides, float scale,
                                               int causal) {
  hetsynth::cuda::AttentionShape s;
  s.backward = backward, s.scale = scale, s.causal = causal != 0;
  s.batch = sizes[0], s.heads = sizes[1], s.key_heads = sizes[2], s.queries = sizes[3], s.keys = sizes[4];
  s.features = sizes[5], s.value_features = sizes[6];
  std::vector<hetsynth::cuda::AttentionStrides*> tensors{&s.q, &s.k, &s.v, &s.o};
  if (backward) tensors.insert(tensors.end(), {&s.o_gradient, &s.q_gradient, &s.k_gradient, &s.v_gradient});
  for (hetsynth::cuda::AttentionStrides* tensor : tensors) {
    *tensor = {strides[0], strides[1], strides[2]};
    strides += 3;
  }
  return s;
}

}  // namespace

extern "C" {

int hetsynth_launch(HetsynthContext* context, int stream, int kernel, unsigned blocks, unsigned threads,
                    unsigned shared_bytes, void** arguments) {
  return device_of(context).launch(stream, kernel, blocks, threads, shared_bytes, arguments);
}

int hetsynth_device_matmul(HetsynthContext* context, int64_t batch, int64_t m, int64_t n, int64_t k, const float* a,
                           int64_t a_batch, int64_t a_row, int64_t a_column, const float* w, int64_t w_batch,
                           int64_t w_row, int64_t w_column, float* c, int64_t c_batch, int64_t c_row, int64_t c_column,
                           int accumulate) {
  return device_of(context).multiply(
      {batch, m, n, k, a_batch, a_row, a_column, w_batch, w_row, w_column, c_batch, c_row, c_column}, {a, w, c},
      accumulate != 0);
}

int hetsynth_device_matmul_bf16(HetsynthContext* context, int64_t batch, int64_t m, int64_t n, int64_t k, const void* a,
                                int64_t a_batch, int64_t a_row, int64_t a_column, const void* w, int64_t w_batch,
                                int64_t w_row, int64_t w_column, float* c, int64_t c_batch, int64_t c_row,
                                int64_t c_column, int accumulate) {
  return device_of(context).multiply(
      {batch, m, n, k, a_batch, a_row, a_column, w_batch, w_row, w_column, c_batch, c_row, c_column, ProductType::bf16},
      {a, w, c}, accumulate != 0);
}

int hetsynth_device_matmul_fp16(HetsynthContext* context, int64_t batch, int64_t m, int64_t n, int64_t k, const void* a,
                                int64_t a_batch, int64_t a_row, int64_t a_column, const void* w, int64_t w_batch,
                                int64_t w_row, int64_t w_column, float* c, int64_t c_batch, int64_t c_row,
                                int64_t c_column, int accumulate) {
  return device_of(context).multiply(
      {batch, m, n, k, a_batch, a_row, a_column, w_batch, w_row, w_column, c_batch, c_row, c_column, ProductType::fp16},
      {a, w, c}, accumulate != 0);
}

int hetsynth_device_matmul_then(HetsynthContext* context, int operands, int64_t m, int64_t n, int64_t k, const void* a,
                                int64_t a_row, int64_t a_column, const void* w, int64_t w_row, int64_t w_column,
                                float* c, int64_t c_row, int epilogue, float* bias, float* beside) {
  return device_of(context).multiply(
      {1, m, n, k, 0, a_row, a_column, 0, w_row, w_column, 0, c_row, 1, operand_types[operands], epilogue},
      {a, w, c, bias, beside}, false);
}

int hetsynth_device_attention(HetsynthContext* context, const int64_t* sizes, const int64_t* strides, float scale,
                              int causal, const void* q, const void* k, const void* v, void* o, float* statistics,
                              void* workspace, int64_t workspace_bytes) {
  hetsynth::cuda::AttentionOperands operands{q, k, v, o, statistics};
  operands.workspace = static_cast<char*>(workspace), operands.workspace_bytes = workspace_bytes;
  hetsynth::cuda::AttentionShape shape = attention_shape(false, sizes, strides, scale, causal);
  shape.keeps_statistics = statistics != nullptr;
  return device_of(context).attend(shape, operands);
}

int hetsynth_device_attention_gradient(HetsynthContext* context, const int64_t* sizes, const int64_t* strides,
                                       float scale, int causal, const void* q, const void* k, const void* v,
                                       const void* o, const float* statistics, const void* o_gradient, void* q_gradient,
                                       void* k_gradient, void* v_gradient, void* workspace, int64_t workspace_bytes) {
  const hetsynth::cuda::AttentionOperands operands{q,
                                                   k,
                                                   v,
                                                   const_cast<void*>(o),
                                                   const_cast<float*>(statistics),
                                                   o_gradient,
                                                   q_gradient,
                                                   k_gradient,
                                                   v_gradient,
                                                   static_cast<char*>(workspace),
                                                   workspace_bytes};
  return device_of(context).attend(attention_shape(true, sizes, strides, scale, causal), operands);
}

int hetsynth_device_copy(HetsynthContext* context, int stream, void* to, const void* from, int64_t bytes) {
  return device_of(context).copy(stream, to, from, bytes);
}

int hetsynth_record(HetsynthContext* context, int event, int stream) {
  return device_of(context).record(event, stream);
}

int hetsynth_wait(HetsynthContext* context, int event, int stream) { return device_of(context).wait(event, stream); }

void* hetsynth_nccl_communicator(HetsynthContext* context, int axis) { return device_of(context).communicator(axis); }
void* hetsynth_nccl_host_communicator(HetsynthContext* context, int axis) {
  return device_of(context).host_communicator(axis);
}
void* hetsynth_nccl_leader_communicator(HetsynthContext* context, int axis) {
  return device_of(context).leader_communicator(axis);
}
void* hetsynth_nccl_rising_communicator(HetsynthContext* context, int axis) {
  return device_of(context).rising_communicator(axis);
}
void* hetsynth_nccl_falling_communicator(HetsynthContext* context, int axis) {
  return device_of(context).falling_communicator(axis);
}

}  // extern "C"

namespace hetsynth::cuda {

std::vector<std::pair<std::string, void*>> cuda_symbols() {
  auto address = [](auto* function) { return reinterpret_cast<void*>(function); };
  return {{"hetsynth_launch", address(&hetsynth_launch)},
          {"hetsynth_device_matmul", address(&hetsynth_device_matmul)},
          {"hetsynth_device_matmul_bf16", address(&hetsynth_device_matmul_bf16)},
          {"hetsynth_device_matmul_fp16", address(&hetsynth_device_matmul_fp16)},
          {"hetsynth_device_matmul_then", address(&hetsynth_device_matmul_then)},
          {"hetsynth_device_attention", address(&hetsynth_device_attention)},
          {"hetsynth_device_attention_gradient", address(&hetsynth_device_attention_gradient)},
          {"hetsynth_device_copy", address(&hetsynth_device_copy)},
          {"hetsynth_record", address(&hetsynth_record)},
          {"hetsynth_wait", address(&hetsynth_wait)},
          {"hetsynth_nccl_communicator", address(&hetsynth_nccl_communicator)},
          {"hetsynth_nccl_host_communicator", address(&hetsynth_nccl_host_communicator)},
          {"hetsynth_nccl_leader_communicator", address(&hetsynth_nccl_leader_communicator)},
          {"hetsynth_nccl_rising_communicator", address(&hetsynth_nccl_rising_communicator)},
          {"hetsynth_nccl_falling_communicator", address(&hetsynth_nccl_falling_communicator)},
          {"ncclGroupStart", address(&group_start)},
          {"ncclGroupEnd", address(&group_end)},
          {"ncclAllGather", address(&all_gather)},
          {"ncclAllReduce", address(&all_reduce)},
          {"ncclReduceScatter", address(&reduce_scatter)},
          {"ncclBroadcast", address(&broadcast)},
          {"ncclReduce", address(&reduce)},
          {"ncclSend", address(&send)},
          {"ncclRecv", address(&receive)}};
}

}  // namespace hetsynth::cuda
