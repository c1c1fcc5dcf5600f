#include "codegen/cuda/transfers/transfers.h"

#include <algorithm>

#include "codegen/cuda/transfers/halo_transfer.h"
#include "codegen/cuda/transfers/host_transfer.h"
#include "codegen/cuda/transfers/transfer_planner.h"
#include "dsl/base/error.h"

namespace hetsynth::codegen::cuda {
namespace {

class Planner : private TransferPlanner {
 public:
  using TransferPlanner::TransferPlanner;

  void run() {
    if (ranks_ == 1) {
      // A group of one has no communicator; every collective hands on what it is given.
      if (from_.count() > 0) out_.copies_before.push_back({source, result, from_.count()});
      return;
    }
    switch (instruction_.opcode) {
      case Opcode::all_gather:
        all_gather();
        break;
      case Opcode::reduce_scatter:
        reduce_scatter();
        break;
      case Opcode::all_to_all:
        all_to_all();
        break;
      case Opcode::halo_exchange:
        note_shares(bounds(instruction_.table, instruction_.dim));
        plan_halo_exchange(program_, from_, to_, instruction_, rank_, out_);
        break;
      case Opcode::all_reduce:
        single({NcclCall::Kind::all_reduce, source, result, from_.count(), -1});
        break;
      case Opcode::broadcast:
        // Where only the root holds anything, the others name the result as what they would send.
        single({NcclCall::Kind::broadcast, op_.inputs.empty() ? result : source, result, from_.count(),
                instruction_.root});
        break;
      case Opcode::send:
        if (op_.inputs.empty())
          single({NcclCall::Kind::receive, {}, result, to_.count(), instruction_.root, 0, direction()});
        else
          single({NcclCall::Kind::send, source, {}, from_.count(), instruction_.to, 0, direction()});
        break;
      default:
        HETSYNTH_CHECK(false, "the instruction is a collective");
    }
  }

 private:
  int64_t longest(const std::vector<int64_t>& bounds) const {
    int64_t out = 0;
    for (int p = 0; p < ranks_; ++p) out = std::max(out, length(bounds, p));
    return out;
  }

  NcclCall::Over direction() const {
    return instruction_.to > instruction_.root ? NcclCall::Over::rising : NcclCall::Over::falling;
  }

  void single(NcclCall call) {
    if (call.count == 0) return;
    out_.calls.push_back(call);
  }

  void all_gather() {
    std::vector<int64_t> cut = bounds(instruction_.table, instruction_.dim);
    size_t dim = size_t(instruction_.dim);
    int64_t outer = product(to_, 0, dim), inner = product(to_, dim + 1, to_.ranges.size()), each = outer * inner;
    note_shares(cut);
    if (cut.back() * each == 0) return;
    PieceCopy pieces{outer, inner, cut, 0, false};
    if (even(cut)) {
      Spot target = outer == 1 ? result : scratch(cut.back() * each);
      out_.calls.push_back({NcclCall::Kind::all_gather, source, target, length(cut, 0) * each, -1});
      if (outer != 1) out_.unpack.push_back({pieces, target, result});
    } else if (instruction_.realisation == Realisation::padded) {
      // In place: every rank's share stands at exactly its own place of the gathered buffer.
      int64_t longest_share = longest(cut) * each;
      Spot target = scratch(longest_share * ranks_);
      if (length(cut, me_) > 0)
        out_.copies_before.push_back({source, at(target, me_ * longest_share), length(cut, me_) * each});
      out_.calls.push_back({NcclCall::Kind::all_gather, at(target, me_ * longest_share), target, longest_share, -1});
      pieces.piece_stride = longest_share;
      out_.unpack.push_back({pieces, target, result});
    } else {
      Spot target = outer == 1 ? result : scratch(cut.back() * each);
      for (int p = 0; p < ranks_; ++p)
        if (length(cut, p) > 0)
          out_.calls.push_back(
              {NcclCall::Kind::broadcast, source, at(target, cut[size_t(p)] * each), length(cut, p) * each, p});
      if (outer != 1) out_.unpack.push_back({pieces, target, result});
    }
  }

  void reduce_scatter() {
    std::vector<int64_t> cut = bounds(instruction_.table, instruction_.dim);
    size_t dim = size_t(instruction_.dim);
    int64_t outer = product(from_, 0, dim), inner = product(from_, dim + 1, from_.ranges.size()), each = outer * inner;
    note_shares(cut);
    if (cut.back() * each == 0) return;
    bool padded = !even(cut) && instruction_.realisation == Realisation::padded;
    int64_t longest_share = longest(cut) * each;
    Spot whole = source;
    if (outer != 1 || padded) {
      whole = scratch(padded ? longest_share * ranks_ : cut.back() * each);
      out_.pack.push_back({{outer, inner, cut, padded ? longest_share : 0, true}, source, whole});
    }
    if (even(cut)) {
      out_.calls.push_back({NcclCall::Kind::reduce_scatter, whole, result, length(cut, 0) * each, -1});
    } else if (padded) {
      Spot share = scratch(longest_share);
      out_.calls.push_back({NcclCall::Kind::reduce_scatter, whole, share, longest_share, -1});
      if (length(cut, me_) > 0) out_.copies_after.push_back({share, result, length(cut, me_) * each});
    } else {
      for (int p = 0; p < ranks_; ++p)
        if (length(cut, p) > 0)
          out_.calls.push_back(
              {NcclCall::Kind::reduce, at(whole, cut[size_t(p)] * each), result, length(cut, p) * each, p});
    }
  }

  void all_to_all() {
    const Pieces x = exchanged();
    for (int p = 0; p < ranks_; ++p) {
      const int64_t send = x.mine * length(x.to, p), receive = x.ours * length(x.cut, p);
      if (send > 0) out_.calls.push_back({NcclCall::Kind::send, at(x.sent, x.mine * x.to[size_t(p)]), {}, send, p});
      if (receive > 0)
        out_.calls.push_back({NcclCall::Kind::receive, {}, at(x.received, x.ours * x.cut[size_t(p)]), receive, p});
    }
  }
};

/// Appends what another collective of the same step does.
void append(Transfer& to, Transfer next, int collective) {
  const int scratch_before = int(to.scratch.size());
  auto move_spot = [&](Spot& spot) {
    spot.collective = collective;
    if (spot.kind == Spot::Kind::scratch) spot.scratch += scratch_before;
  };
  auto move_all = [&](auto& from, auto& into) {
    for (auto& part : from) {
      move_spot(part.from), move_spot(part.to);
      if constexpr (requires { part.own; }) move_spot(part.own);
      into.push_back(part);
    }
  };
  move_all(next.pack, to.pack);
  move_all(next.copies_before, to.copies_before);
  for (NcclCall& call : next.calls) call.collective = collective;
  move_all(next.calls, to.calls);
  move_all(next.copies_after, to.copies_after);
  move_all(next.unpack, to.unpack);
  for (const Transfer::Scratch& scratch : next.scratch) to.scratch.push_back({scratch.elements, collective});
  next.shares.resize(1);
  to.shares.push_back(next.shares.front());
}

}  // namespace

Transfer plan_transfer(const SpmdProgram& program, const LocalProgram& local, const std::vector<int>& ops) {
  Transfer out;
  for (size_t i = 0; i < ops.size(); ++i) {
    const LocalOp& op = local.ops[size_t(ops[i])];
    Transfer one;
    if (op.collective->realisation == Realisation::hierarchical)
      plan_by_host(program, local, op, one);
    else
      Planner(program, local, op, one).run();
    append(out, std::move(one), int(i));
  }
  std::ranges::stable_sort(out.calls, {}, &NcclCall::phase);
  return out;
}

std::vector<NcclPhase> phases_of(const std::vector<NcclCall>& calls) {
  std::vector<NcclPhase> out;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (i == 0 || calls[i].phase != calls[i - 1].phase) out.push_back({i, i, false});
    NcclPhase& phase = out.back();
    phase.last = i + 1;
    phase.grouped = phase.grouped || i > phase.first || calls[i].kind == NcclCall::Kind::send ||
                    calls[i].kind == NcclCall::Kind::receive;
  }
  return out;
}

}  // namespace hetsynth::codegen::cuda
