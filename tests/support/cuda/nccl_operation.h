// What a rank asks NCCL for, and the entries of NCCL's table that pass it on to a double.
#pragma once
#include <cstdint>
#include <string>

#include "runtime/cuda/cuda_api.h"

namespace hetsynth::testing_support {

struct NcclOperation {
  enum class Kind { all_gather, all_reduce, reduce_scatter, broadcast, reduce, send, receive } kind;
  const char* from;
  char* to;
  int64_t count;
  int type, op, peer;
  bool recorded = false;  ///< issued while a step was being recorded

  /// "broadcast 12 f32 op -1 peer 0": what all ranks must agree on.
  std::string text() const;
  bool point_to_point() const { return kind == Kind::send || kind == Kind::receive; }
  int64_t element_bytes() const;
  /// 0 where the rank sends nothing: all but the root of a broadcast.
  size_t source_bytes(int ranks, int rank) const;
  /// 0 where the rank receives nothing.
  size_t destination_bytes(int ranks, int rank) const;
};

/// NCCL allows source and destination to be the same memory only at the rank's own place of the whole; "" if it is so.
std::string overlap_problem(const NcclOperation& call, int rank, int ranks);

/// Fills in the collectives, sends and receives of a table: each makes an operation of its arguments and hands it to
/// `issue`, which returns what NCCL would return. `op` and `peer` are -1 where a call has none.
template <int issue(NcclOperation operation, void* communicator, void* stream)>
void fill_operations(cuda::Nccl& n) {
  using Kind = NcclOperation::Kind;
  static constexpr auto make = [](Kind kind, const void* from, void* to, size_t count, int type, int op, int peer) {
    return NcclOperation{kind, static_cast<const char*>(from), static_cast<char*>(to), int64_t(count), type, op, peer};
  };
  n.all_gather = [](const void* from, void* to, size_t count, int type, void* communicator, void* stream) {
    return issue(make(Kind::all_gather, from, to, count, type, -1, -1), communicator, stream);
  };
  n.all_reduce = [](const void* from, void* to, size_t count, int type, int op, void* communicator, void* stream) {
    return issue(make(Kind::all_reduce, from, to, count, type, op, -1), communicator, stream);
  };
  n.reduce_scatter = [](const void* from, void* to, size_t count, int type, int op, void* communicator, void* stream) {
    return issue(make(Kind::reduce_scatter, from, to, count, type, op, -1), communicator, stream);
  };
  n.broadcast = [](const void* from, void* to, size_t count, int type, int root, void* communicator, void* stream) {
    return issue(make(Kind::broadcast, from, to, count, type, -1, root), communicator, stream);
  };
  n.reduce = [](const void* from, void* to, size_t count, int type, int op, int root, void* communicator,
                void* stream) {
    return issue(make(Kind::reduce, from, to, count, type, op, root), communicator, stream);
  };
  n.send = [](const void* from, size_t count, int type, int peer, void* communicator, void* stream) {
    return issue(make(Kind::send, from, nullptr, count, type, -1, peer), communicator, stream);
  };
  n.receive = [](void* to, size_t count, int type, int peer, void* communicator, void* stream) {
    return issue(make(Kind::receive, nullptr, to, count, type, -1, peer), communicator, stream);
  };
}

}  // namespace hetsynth::testing_support
