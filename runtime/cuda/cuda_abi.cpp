// Functions of codegen/abi.h that host programs of cuda devices call, and NCCL's under their own names.
#include <optional>

#include "runtime/cuda/cuda_device_state.h"

using hetsynth::cuda::CudaDevice;
using hetsynth::cuda::Nccl;

namespace {

CudaDevice& device_of(HetsynthContext* context) { return *static_cast<CudaDevice*>(context->device); }

/// NCCL's functions know no context: one thread issues one rank's step.
CudaDevice& device() { return *CudaDevice::issuing(); }

int group_start() { return device().group_start(); }
int group_end() { return device().group_end(); }

/// One call of NCCL, by its name. Within a group what it takes is that of the group.
template <class Call>
int collective(const char* name, const Call& call) {
  std::optional<CudaDevice::Timed> timed;
  if (!device().in_group()) timed.emplace(device(), hetsynth::TimedWork::Kind::transfer, 1, name);
  return device().nccl_done(call(device().nccl()), name);
}

int all_gather(const void* from, void* to, size_t count, int type, void* communicator, void* stream) {
  return collective("ncclAllGather",
                    [&](const Nccl& nccl) { return nccl.all_gather(from, to, count, type, communicator, stream); });
}
int all_reduce(const void* from, void* to, size_t count, int type, int op, void* communicator, void* stream) {
  return collective("ncclAllReduce",
                    [&](const Nccl& nccl) { return nccl.all_reduce(from, to, count, type, op, communicator, stream); });
}
int reduce_scatter(const void* from, void* to, size_t count, int type, int op, void* communicator, void* stream) {
  return collective("ncclReduceScatter", [&](const Nccl& nccl) {
    return nccl.reduce_scatter(from, to, count, type, op, communicator, stream);
  });
}
int broadcast(const void* from, void* to, size_t count, int type, int root, void* communicator, void* stream) {
  return collective("ncclBroadcast", [&](const Nccl& nccl) {
    return nccl.broadcast(from, to, count, type, root, communicator, stream);
  });
}
int reduce(const void* from, void* to, size_t count, int type, int op, int root, void* communicator, void* stream) {
  return collective("ncclReduce", [&](const Nccl& nccl) {
    return nccl.reduce(from, to, count, type, op, root, communicator, stream);
  });
}
int send(const void* from, size_t count, int type, int peer, void* communicator, void* stream) {
  return collective("ncclSend",
                    [&](const Nccl& nccl) { return nccl.send(from, count, type, peer, communicator, stream); });
}
int receive(void* to, size_t count, int type, int peer, void* communicator, void* stream) {
  return collective("ncclRecv",
                    [&](const Nccl& nccl) { return nccl.receive(to, count, type, peer, communicator, stream); });
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
      {batch, m, n, k, a_batch, a_row, a_column, w_batch, w_row, w_column, c_batch, c_row, c_column, false}, {a, w, c},
      accumulate != 0);
}

int hetsynth_device_matmul_bf16(HetsynthContext* context, int64_t batch, int64_t m, int64_t n, int64_t k, const void* a,
                                int64_t a_batch, int64_t a_row, int64_t a_column, const void* w, int64_t w_batch,
                                int64_t w_row, int64_t w_column, float* c, int64_t c_batch, int64_t c_row,
                                int64_t c_column, int accumulate) {
  return device_of(context).multiply(
      {batch, m, n, k, a_batch, a_row, a_column, w_batch, w_row, w_column, c_batch, c_row, c_column, true}, {a, w, c},
      accumulate != 0);
}

int hetsynth_device_matmul_then(HetsynthContext* context, int bf16, int64_t m, int64_t n, int64_t k, const void* a,
                                int64_t a_row, int64_t a_column, const void* w, int64_t w_row, int64_t w_column,
                                float* c, int64_t c_row, int epilogue, float* bias, float* beside) {
  return device_of(context).multiply(
      {1, m, n, k, 0, a_row, a_column, 0, w_row, w_column, 0, c_row, 1, bf16 != 0, epilogue}, {a, w, c, bias, beside},
      false);
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

}  // extern "C"

namespace hetsynth::cuda {

std::vector<std::pair<std::string, void*>> cuda_symbols() {
  auto address = [](auto* function) { return reinterpret_cast<void*>(function); };
  return {{"hetsynth_launch", address(&hetsynth_launch)},
          {"hetsynth_device_matmul", address(&hetsynth_device_matmul)},
          {"hetsynth_device_matmul_bf16", address(&hetsynth_device_matmul_bf16)},
          {"hetsynth_device_matmul_then", address(&hetsynth_device_matmul_then)},
          {"hetsynth_device_copy", address(&hetsynth_device_copy)},
          {"hetsynth_record", address(&hetsynth_record)},
          {"hetsynth_wait", address(&hetsynth_wait)},
          {"hetsynth_nccl_communicator", address(&hetsynth_nccl_communicator)},
          {"hetsynth_nccl_host_communicator", address(&hetsynth_nccl_host_communicator)},
          {"hetsynth_nccl_leader_communicator", address(&hetsynth_nccl_leader_communicator)},
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
