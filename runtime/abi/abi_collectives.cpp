// Collectives of codegen/interface/abi.h, handed to the rank's communicator.
#include "codegen/interface/abi.h"
#include "runtime/abi/abi.h"
#include "runtime/collectives/communicator.h"

using hetsynth::CollectiveCall;
using hetsynth::CollectiveKind;
using hetsynth::Communicator;

namespace {

Communicator& communicator_of(HetsynthContext* context) { return *static_cast<Communicator*>(context->communicator); }

std::span<const int64_t> table(const Communicator& communicator, int axis, const int64_t* bounds) {
  return {bounds, static_cast<size_t>(communicator.group_size(axis)) + 1};
}

/// None: the collective is not hierarchical.
std::span<const int64_t> hosts_of(const Communicator& communicator, int axis, const int64_t* hosts) {
  if (!hosts) return {};
  return {hosts, static_cast<size_t>(communicator.group_size(axis))};
}

CollectiveCall start_call(CollectiveKind kind, int id, int axis, const void* source, void* destination, int type) {
  CollectiveCall call;
  call.kind = kind;
  call.id = id;
  call.axis = axis;
  call.type = static_cast<hetsynth::ElementType>(type);
  call.source = source;
  call.destination = destination;
  return call;
}

}  // namespace

extern "C" {

int hetsynth_begin(HetsynthContext* context, int id, int members) {
  return communicator_of(context).begin(id, members) ? 0 : 1;
}

int hetsynth_end(HetsynthContext* context, int id) { return communicator_of(context).end(id) ? 0 : 1; }

int hetsynth_all_gather(HetsynthContext* context, int id, int axis, const void* source, void* destination,
                        int64_t outer, int64_t inner, const int64_t* bounds, int type) {
  return hetsynth_hierarchical_all_gather(context, id, axis, source, destination, outer, inner, bounds, type, nullptr);
}

int hetsynth_all_reduce(HetsynthContext* context, int id, int axis, const void* source, void* destination,
                        int64_t count, int reduce, int type) {
  return hetsynth_hierarchical_all_reduce(context, id, axis, source, destination, count, reduce, type, nullptr);
}

int hetsynth_reduce_scatter(HetsynthContext* context, int id, int axis, const void* source, void* destination,
                            int64_t outer, int64_t inner, const int64_t* bounds, int reduce, int type) {
  return hetsynth_hierarchical_reduce_scatter(context, id, axis, source, destination, outer, inner, bounds, reduce,
                                              type, nullptr);
}

int hetsynth_hierarchical_all_gather(HetsynthContext* context, int id, int axis, const void* source, void* destination,
                                     int64_t outer, int64_t inner, const int64_t* bounds, int type,
                                     const int64_t* hosts) {
  Communicator& communicator = communicator_of(context);
  CollectiveCall call = start_call(CollectiveKind::all_gather, id, axis, source, destination, type);
  call.outer = outer;
  call.inner = inner;
  call.bounds = table(communicator, axis, bounds);
  call.hosts = hosts_of(communicator, axis, hosts);
  return communicator.run(call) ? 0 : 1;
}

int hetsynth_hierarchical_all_reduce(HetsynthContext* context, int id, int axis, const void* source, void* destination,
                                     int64_t count, int reduce, int type, const int64_t* hosts) {
  Communicator& communicator = communicator_of(context);
  CollectiveCall call = start_call(CollectiveKind::all_reduce, id, axis, source, destination, type);
  call.count = count;
  call.reduce = static_cast<hetsynth::Reduction>(reduce);
  call.hosts = hosts_of(communicator, axis, hosts);
  return communicator.run(call) ? 0 : 1;
}

int hetsynth_hierarchical_reduce_scatter(HetsynthContext* context, int id, int axis, const void* source,
                                         void* destination, int64_t outer, int64_t inner, const int64_t* bounds,
                                         int reduce, int type, const int64_t* hosts) {
  Communicator& communicator = communicator_of(context);
  CollectiveCall call = start_call(CollectiveKind::reduce_scatter, id, axis, source, destination, type);
  call.outer = outer;
  call.inner = inner;
  call.bounds = table(communicator, axis, bounds);
  call.reduce = static_cast<hetsynth::Reduction>(reduce);
  call.hosts = hosts_of(communicator, axis, hosts);
  return communicator.run(call) ? 0 : 1;
}

int hetsynth_all_to_all(HetsynthContext* context, int id, int axis, const void* source, void* destination,
                        const int64_t* extents, int from_first, const int64_t* bounds_from, const int64_t* bounds_to,
                        int type) {
  return hetsynth_hierarchical_all_to_all(context, id, axis, source, destination, extents, from_first, bounds_from,
                                          bounds_to, type, nullptr);
}

int hetsynth_hierarchical_all_to_all(HetsynthContext* context, int id, int axis, const void* source, void* destination,
                                     const int64_t* extents, int from_first, const int64_t* bounds_from,
                                     const int64_t* bounds_to, int type, const int64_t* hosts) {
  Communicator& communicator = communicator_of(context);
  CollectiveCall call = start_call(CollectiveKind::all_to_all, id, axis, source, destination, type);
  call.outer = extents[0];
  call.first = extents[1];
  call.middle = extents[2];
  call.second = extents[3];
  call.inner = extents[4];
  call.from_first = from_first != 0;
  call.bounds = table(communicator, axis, bounds_from);
  call.bounds_to = table(communicator, axis, bounds_to);
  call.hosts = hosts_of(communicator, axis, hosts);
  return communicator.run(call) ? 0 : 1;
}

int hetsynth_halo_exchange(HetsynthContext* context, int id, int axis, const void* source, void* destination,
                           int64_t outer, int64_t inner, const int64_t* bounds, int64_t before, int64_t after,
                           int type) {
  Communicator& communicator = communicator_of(context);
  CollectiveCall call = start_call(CollectiveKind::halo_exchange, id, axis, source, destination, type);
  call.outer = outer;
  call.inner = inner;
  call.bounds = table(communicator, axis, bounds);
  call.before = before;
  call.after = after;
  return communicator.run(call) ? 0 : 1;
}

int hetsynth_broadcast(HetsynthContext* context, int id, int axis, const void* source, void* destination, int64_t count,
                       int root, int type) {
  return hetsynth_hierarchical_broadcast(context, id, axis, source, destination, count, root, type, nullptr);
}

int hetsynth_hierarchical_broadcast(HetsynthContext* context, int id, int axis, const void* source, void* destination,
                                    int64_t count, int root, int type, const int64_t* hosts) {
  Communicator& communicator = communicator_of(context);
  CollectiveCall call = start_call(CollectiveKind::broadcast, id, axis, source, destination, type);
  call.count = count;
  call.root = root;
  call.hosts = hosts_of(communicator, axis, hosts);
  return communicator.run(call) ? 0 : 1;
}

int hetsynth_send(HetsynthContext* context, int id, int axis, const void* source, int64_t count, int to, int type) {
  Communicator& communicator = communicator_of(context);
  CollectiveCall call = start_call(CollectiveKind::send, id, axis, source, nullptr, type);
  call.count = count;
  call.root = communicator.coordinate(axis);
  call.to = to;
  return communicator.run(call) ? 0 : 1;
}

int hetsynth_receive(HetsynthContext* context, int id, int axis, void* destination, int64_t count, int from, int type) {
  Communicator& communicator = communicator_of(context);
  CollectiveCall call = start_call(CollectiveKind::send, id, axis, nullptr, destination, type);
  call.count = count;
  call.root = from;
  call.to = communicator.coordinate(axis);
  return communicator.run(call) ? 0 : 1;
}

}  // extern "C"

namespace hetsynth {

std::vector<std::pair<std::string, void*>> abi_symbols() {
  return {{"hetsynth_begin", reinterpret_cast<void*>(&hetsynth_begin)},
          {"hetsynth_end", reinterpret_cast<void*>(&hetsynth_end)},
          {"hetsynth_all_gather", reinterpret_cast<void*>(&hetsynth_all_gather)},
          {"hetsynth_all_reduce", reinterpret_cast<void*>(&hetsynth_all_reduce)},
          {"hetsynth_reduce_scatter", reinterpret_cast<void*>(&hetsynth_reduce_scatter)},
          {"hetsynth_all_to_all", reinterpret_cast<void*>(&hetsynth_all_to_all)},
          {"hetsynth_halo_exchange", reinterpret_cast<void*>(&hetsynth_halo_exchange)},
          {"hetsynth_broadcast", reinterpret_cast<void*>(&hetsynth_broadcast)},
          {"hetsynth_hierarchical_all_gather", reinterpret_cast<void*>(&hetsynth_hierarchical_all_gather)},
          {"hetsynth_hierarchical_all_reduce", reinterpret_cast<void*>(&hetsynth_hierarchical_all_reduce)},
          {"hetsynth_hierarchical_reduce_scatter", reinterpret_cast<void*>(&hetsynth_hierarchical_reduce_scatter)},
          {"hetsynth_hierarchical_all_to_all", reinterpret_cast<void*>(&hetsynth_hierarchical_all_to_all)},
          {"hetsynth_hierarchical_broadcast", reinterpret_cast<void*>(&hetsynth_hierarchical_broadcast)},
          {"hetsynth_send", reinterpret_cast<void*>(&hetsynth_send)},
          {"hetsynth_receive", reinterpret_cast<void*>(&hetsynth_receive)},
          {"hetsynth_mark", reinterpret_cast<void*>(&hetsynth_mark)},
          {"hetsynth_convolution", reinterpret_cast<void*>(&hetsynth_convolution)},
          {"hetsynth_matmul", reinterpret_cast<void*>(&hetsynth_matmul)},
          {"hetsynth_matmul_bf16", reinterpret_cast<void*>(&hetsynth_matmul_bf16)},
          {"hetsynth_matmul_fp16", reinterpret_cast<void*>(&hetsynth_matmul_fp16)}};
}

}  // namespace hetsynth
