#include "codegen/cuda/transfers/transfer_planner.h"

#include <fmt/format.h>

#include <algorithm>

namespace hetsynth::codegen::cuda {

TransferPlanner::TransferPlanner(const SpmdProgram& program, const LocalProgram& local, const LocalOp& op,
                                 Transfer& out)
    : program_(program),
      op_(op),
      instruction_(*op.collective),
      rank_(local.rank),
      from_(local.values[size_t(op.inputs.empty() ? op.result : op.inputs[0].value)]),
      to_(local.values[size_t(op.result)]),
      me_(program.mesh.coordinate(local.rank, instruction_.axis)),
      ranks_(program.mesh.axes[size_t(instruction_.axis)].size),
      out_(out) {}

int64_t TransferPlanner::product(const LocalValue& value, size_t begin, size_t end) {
  int64_t out = 1;
  for (size_t d = begin; d < end; ++d) out *= value.ranges[d].hi - value.ranges[d].lo;
  return out;
}

std::vector<int64_t> TransferPlanner::bounds(int table, int dim) const {
  return bounds_in_elements(program_, table, to_.type.shape.at(size_t(dim)), rank_);
}

bool TransferPlanner::even(const std::vector<int64_t>& bounds) {
  for (size_t p = 0; p + 1 < bounds.size(); ++p)
    if (length(bounds, int(p)) != length(bounds, 0)) return false;
  return true;
}

Spot TransferPlanner::scratch(int64_t elements) {
  out_.scratch.push_back({elements});
  return {Spot::Kind::scratch, int(out_.scratch.size()) - 1, 0};
}

void TransferPlanner::note_shares(const std::vector<int64_t>& bounds) {
  std::string text;
  for (int p = 0; p < ranks_; ++p) text += fmt::format("{}{}", p ? ", " : "", length(bounds, p));
  out_.shares = {"shares of " + text};
}

TransferPlanner::Pieces TransferPlanner::exchanged() {
  const size_t dim = size_t(instruction_.dim), to_dim = size_t(instruction_.to_dim), rank = to_.ranges.size();
  Pieces out{bounds(instruction_.table, instruction_.dim),
             bounds(instruction_.to_table, instruction_.to_dim),
             source,
             result,
             1,
             0,
             0};
  for (size_t d = 0; d < rank; ++d)
    if (d != dim && d != to_dim) out.others *= product(to_, d, d + 1);
  out.mine = length(out.cut, me_) * out.others;
  out.ours = length(out.to, me_) * out.others;
  note_shares(out.cut);
  const int64_t outer = product(from_, 0, to_dim), result_outer = product(to_, 0, dim);
  if (outer != 1 && from_.count() > 0) {
    out.sent = scratch(from_.count());
    out_.pack.push_back({{outer, product(from_, to_dim + 1, rank), out.to, 0, true}, source, out.sent});
  }
  if (result_outer != 1 && to_.count() > 0) {
    out.received = scratch(to_.count());
    out_.unpack.push_back({{result_outer, product(to_, dim + 1, rank), out.cut, 0, false}, out.received, result});
  }
  return out;
}

}  // namespace hetsynth::codegen::cuda
