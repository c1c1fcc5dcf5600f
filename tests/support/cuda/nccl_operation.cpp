#include "tests/support/cuda/nccl_operation.h"

#include <fmt/format.h>

namespace hetsynth::testing_support {

std::string NcclOperation::text() const {
  static const char* const names[] = {"all_gather", "all_reduce", "reduce_scatter", "broadcast",
                                      "reduce",     "send",       "receive"};
  const char* element = type == cuda::nccl_float32   ? "f32"
                        : type == cuda::nccl_int32   ? "i32"
                        : type == cuda::nccl_float16 ? "fp16"
                                                     : "bf16";
  return fmt::format("{} {} {} op {} peer {}{}", names[int(kind)], count, element, op, peer,
                     recorded ? ", recorded" : "");
}

int64_t NcclOperation::element_bytes() const {
  return type == cuda::nccl_bfloat16 || type == cuda::nccl_float16 ? 2 : 4;
}

size_t NcclOperation::source_bytes(int ranks, int rank) const {
  if (kind == Kind::receive || (kind == Kind::broadcast && peer != rank)) return 0;
  return size_t(count * element_bytes()) * (kind == Kind::reduce_scatter ? size_t(ranks) : 1);
}

size_t NcclOperation::destination_bytes(int ranks, int rank) const {
  if (kind == Kind::send || (kind == Kind::reduce && peer != rank)) return 0;
  return size_t(count * element_bytes()) * (kind == Kind::all_gather ? size_t(ranks) : 1);
}

std::string overlap_problem(const NcclOperation& call, int rank, int ranks) {
  const size_t read = call.source_bytes(ranks, rank), written = call.destination_bytes(ranks, rank);
  const bool apart = read == 0 || written == 0 || call.from + read <= call.to || call.to + written <= call.from;
  if (apart) return "";
  using Kind = NcclOperation::Kind;
  const int64_t own = rank * call.count * call.element_bytes();
  const bool in_place = call.kind == Kind::all_gather       ? call.from == call.to + own
                        : call.kind == Kind::reduce_scatter ? call.to == call.from + own
                                                            : call.from == call.to;
  return in_place ? "" : call.text() + " overlaps its source elsewhere than in place";
}

}  // namespace hetsynth::testing_support
