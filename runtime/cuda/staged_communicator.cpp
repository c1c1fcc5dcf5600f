#include "runtime/cuda/staged_communicator.h"

#include <algorithm>

#include "runtime/collectives/collective_pieces.h"

namespace hetsynth::cuda {
namespace {

int nccl_type(ElementType type) {
  switch (type) {
    case ElementType::i32:
      return nccl_int32;
    case ElementType::bf16:
      return nccl_bfloat16;
    case ElementType::fp16:
      return nccl_float16;
    case ElementType::f32:
      break;
  }
  return nccl_float32;
}

int nccl_reduction(Reduction reduce) {
  switch (reduce) {
    case Reduction::max:
      return nccl_max;
    case Reduction::min:
      return nccl_min;
    case Reduction::product:
      return nccl_product;
    case Reduction::average:
      return nccl_average;
    case Reduction::sum:
      break;
  }
  return nccl_sum;
}

}  // namespace

CollectiveBytes bytes_of(const CollectiveCall& call, int coordinate) {
  const auto part = [&](std::span<const int64_t> bounds) {
    return bounds[size_t(coordinate) + 1] - bounds[size_t(coordinate)];
  };
  int64_t source = call.count, destination = call.count;
  switch (call.kind) {
    case CollectiveKind::all_gather:
      source = call.outer * part(call.bounds) * call.inner;
      destination = call.outer * call.bounds.back() * call.inner;
      break;
    case CollectiveKind::reduce_scatter:
      source = call.outer * call.bounds.back() * call.inner;
      destination = call.outer * part(call.bounds) * call.inner;
      break;
    case CollectiveKind::all_to_all: {
      const int64_t rest = call.outer * call.middle * call.inner;
      source = rest * part(call.bounds) * (call.from_first ? call.second : call.first);
      destination = rest * part(call.bounds_to) * (call.from_first ? call.first : call.second);
      break;
    }
    case CollectiveKind::halo_exchange: {
      const Range held = held_with_halo(call, coordinate);
      source = call.outer * part(call.bounds) * call.inner;
      destination = call.outer * (held.hi - held.lo) * call.inner;
      break;
    }
    case CollectiveKind::send:
      (call.root == coordinate ? destination : source) = 0;
      break;
    case CollectiveKind::broadcast:
      if (!call.source) source = 0;  // only the root holds it
      break;
    case CollectiveKind::all_reduce:
      break;
  }
  return {size_t(source * bytes_per_element(call.type)), size_t(destination * bytes_per_element(call.type))};
}

bool StagedCommunicator::run(const CollectiveCall& call) {
  const int coordinate = ranks_.mesh().coordinate(rank(), call.axis);
  const CollectiveBytes bytes = bytes_of(call, coordinate);
  const bool several = ranks_.gpus_along(rank(), call.axis).size() > 1;
  if (several && reduces_among_leaders(call)) return through_first_gpu(call, bytes.destination);
  return through_host(call, call.source, bytes.source, bytes.destination);
}

bool StagedCommunicator::through_host(const CollectiveCall& call, const void* source, size_t source_bytes,
                                      size_t destination_bytes) {
  CollectiveCall host = call;
  // Who only receives has no source, who only sends no destination.
  if (source) host.source = device_.pinned(0, source_bytes);
  if (call.destination) host.destination = device_.pinned(1, destination_bytes);
  if ((source && !host.source) || (call.destination && !host.destination)) return false;
  if (source && device_.to_host(const_cast<void*>(host.source), device_pointer(source), source_bytes)) return false;
  // Also the last copy out of the pinned destination is done then: it may be written again.
  if (device_.synchronize()) return false;
  if (!hosts_.run(host)) return false;
  return !call.destination ||
         device_.to_device(device_pointer(call.destination), host.destination, destination_bytes) == 0;
}

bool StagedCommunicator::through_first_gpu(const CollectiveCall& call, size_t bytes) {
  const Nccl& library = ranks_.library();
  void* const gpus = nccl_->along(call.axis);
  const bool leads = ranks_.gpus_along(rank(), call.axis).front() == rank();
  const size_t count = size_t(call.count);
  if (device_.nccl_done(library.reduce(call.source, call.destination, count, nccl_type(call.type),
                                       nccl_reduction(call.reduce), 0, gpus, device_.stream)))
    return false;
  if (leads && !through_host(call, call.destination, bytes, bytes)) return false;
  return device_.nccl_done(library.broadcast(call.destination, call.destination, count, nccl_type(call.type), 0, gpus,
                                             device_.stream)) == 0;
}

}  // namespace hetsynth::cuda
