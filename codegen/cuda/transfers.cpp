#include "codegen/cuda/transfers.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda/halo_transfer.h"
#include "dsl/base/error.h"
#include "dsl/spmd/hosts.h"

namespace hetsynth::codegen::cuda {
namespace {

const Spot source{Spot::Kind::source, 0, 0};
const Spot result{Spot::Kind::result, 0, 0};

Spot at(Spot place, int64_t offset) {
  place.offset += offset;
  return place;
}

class Planner {
 public:
  Planner(const SpmdProgram& program, const LocalProgram& local, const LocalOp& op)
      : program_(program),
        op_(op),
        instruction_(*op.collective),
        rank_(local.rank),
        from_(local.values[op.inputs.empty() ? op.result : op.inputs[0].value]),
        to_(local.values[op.result]),
        me_(program.mesh.coordinate(local.rank, instruction_.axis)),
        ranks_(program.mesh.axes[instruction_.axis].size) {}

  Transfer run() {
    if (ranks_ == 1) {
      // A group of one has no communicator; every collective hands on what it is given.
      if (from_.count() > 0) out_.copies_before.push_back({source, result, from_.count()});
      return std::move(out_);
    }
    if (instruction_.realisation == Realisation::hierarchical) {
      by_host();
      return std::move(out_);
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
          single({NcclCall::Kind::receive, {}, result, to_.count(), instruction_.root});
        else
          single({NcclCall::Kind::send, source, {}, from_.count(), instruction_.to});
        break;
      default:
        HETSYNTH_CHECK(false, "the instruction is a collective");
    }
    return std::move(out_);
  }

 private:
  static int64_t extent(const LocalValue& value, size_t dim) { return value.ranges[dim].hi - value.ranges[dim].lo; }

  static int64_t product(const LocalValue& value, size_t begin, size_t end) {
    int64_t out = 1;
    for (size_t d = begin; d < end; ++d) out *= extent(value, d);
    return out;
  }

  /// The table's bounds in elements of a dimension.
  std::vector<int64_t> bounds(int table, int dim) const {
    return bounds_in_elements(program_, table, to_.type.shape.at(size_t(dim)), rank_);
  }

  static int64_t length(const std::vector<int64_t>& bounds, int piece) {
    return bounds[size_t(piece) + 1] - bounds[size_t(piece)];
  }

  int64_t longest(const std::vector<int64_t>& bounds) const {
    int64_t out = 0;
    for (int p = 0; p < ranks_; ++p) out = std::max(out, length(bounds, p));
    return out;
  }

  bool even(const std::vector<int64_t>& bounds) const {
    for (int p = 0; p < ranks_; ++p)
      if (length(bounds, p) != length(bounds, 0)) return false;
    return true;
  }

  Spot scratch(int64_t elements) {
    out_.scratch.push_back({elements});
    return {Spot::Kind::scratch, int(out_.scratch.size()) - 1, 0};
  }

  void single(NcclCall call) {
    if (call.count == 0) return;
    out_.calls.push_back(call);
  }

  void note_shares(const std::vector<int64_t>& bounds) {
    std::string text;
    for (int p = 0; p < ranks_; ++p) text += fmt::format("{}{}", p ? ", " : "", length(bounds, p));
    out_.shares = {"shares of " + text};
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

  // ---- within hosts first, between their leaders afterwards ----

  using Over = NcclCall::Over;

  void by_host() {
    hosts_ = hosts_of_group(program_, instruction_.axis, rank_);
    if (instruction_.opcode == Opcode::all_reduce)
      all_reduce_by_host();
    else if (instruction_.opcode == Opcode::all_gather)
      all_gather_by_host();
    else
      reduce_scatter_by_host();
  }

  bool alone() const { return hosts_.members(hosts_.host) == 1; }
  bool leads() const { return me_ == hosts_.leader(); }

  void call(int phase, Over over, NcclCall call) {
    call.over = over;
    call.phase = phase;
    out_.calls.push_back(call);
  }

  void all_reduce_by_host() {
    const int64_t count = from_.count();
    if (count == 0) return;
    if (!alone()) call(0, Over::host, {NcclCall::Kind::reduce, source, result, count, 0});
    if (leads() && hosts_.count() > 1)
      call(1, Over::leaders, {NcclCall::Kind::all_reduce, alone() ? source : result, result, count, -1});
    if (!alone()) call(2, Over::host, {NcclCall::Kind::broadcast, result, result, count, 0});
  }

  /// Shares in coordinate order, so that those of a host lie one after the other: in place.
  void all_gather_by_host() {
    const std::vector<int64_t> cut = bounds(instruction_.table, instruction_.dim);
    const size_t dim = size_t(instruction_.dim);
    const int64_t outer = product(to_, 0, dim), inner = product(to_, dim + 1, to_.ranges.size()), each = outer * inner;
    note_shares(cut);
    if (cut.back() * each == 0) return;
    const Spot whole = outer == 1 ? result : scratch(cut.back() * each);
    const int64_t own = length(cut, me_) * each;
    const int leader = hosts_.leader();
    if (leads() && own > 0) out_.copies_before.push_back({source, at(whole, cut[size_t(me_)] * each), own});
    if (!leads() && own > 0) call(0, Over::host, {NcclCall::Kind::send, source, {}, own, 0});
    for (int p = leader + 1; leads() && p < hosts_.end(); ++p)
      if (length(cut, p) > 0)
        call(0, Over::host,
             {NcclCall::Kind::receive, {}, at(whole, cut[size_t(p)] * each), length(cut, p) * each, p - leader});
    if (leads()) {
      const std::vector<int64_t> blocks = bounds_by_host(hosts_, cut);
      const Spot block = at(whole, blocks[size_t(hosts_.host)] * each);
      if (hosts_.count() > 1 && even_parts(blocks))
        call(1, Over::leaders, {NcclCall::Kind::all_gather, block, whole, blocks[1] * each, -1});
      else if (hosts_.count() > 1)
        for (int h = 0; h < hosts_.count(); ++h)
          if (const Spot part = at(whole, blocks[size_t(h)] * each); length(blocks, h) > 0)
            call(1, Over::leaders, {NcclCall::Kind::broadcast, part, part, length(blocks, h) * each, h});
    }
    if (!alone()) call(2, Over::host, {NcclCall::Kind::broadcast, whole, whole, cut.back() * each, 0});
    if (outer != 1) out_.unpack.push_back({{outer, inner, cut, 0, false}, whole, result});
  }

  void reduce_scatter_by_host() {
    const std::vector<int64_t> cut = bounds(instruction_.table, instruction_.dim);
    const size_t dim = size_t(instruction_.dim);
    const int64_t outer = product(from_, 0, dim), inner = product(from_, dim + 1, from_.ranges.size()),
                  each = outer * inner;
    note_shares(cut);
    if (cut.back() * each == 0) return;
    Spot whole = source;
    if (outer != 1) {
      whole = scratch(cut.back() * each);
      out_.pack.push_back({{outer, inner, cut, 0, true}, source, whole});
    }
    const int leader = hosts_.leader();
    // The sum over the host lies in memory of its own; of a host with one device it is the operand.
    Spot sum = whole;
    if (!alone()) {
      if (leads() && outer == 1) sum = scratch(cut.back() * each);
      call(0, Over::host, {NcclCall::Kind::reduce, whole, leads() ? sum : result, cut.back() * each, 0});
    }
    const std::vector<int64_t> blocks = bounds_by_host(hosts_, cut);
    if (leads() && hosts_.count() > 1) {
      const auto place = [&](int h) { return at(sum, blocks[size_t(h)] * each); };
      const auto target = [&](int h) { return alone() ? result : place(h); };
      if (even_parts(blocks))
        call(1, Over::leaders, {NcclCall::Kind::reduce_scatter, sum, target(hosts_.host), blocks[1] * each, -1});
      else
        for (int h = 0; h < hosts_.count(); ++h)
          if (length(blocks, h) > 0)
            call(1, Over::leaders, {NcclCall::Kind::reduce, place(h), target(h), length(blocks, h) * each, h});
    }
    if (alone()) return;
    const int64_t own = length(cut, me_) * each;
    for (int p = leader + 1; leads() && p < hosts_.end(); ++p)
      if (length(cut, p) > 0)
        call(2, Over::host,
             {NcclCall::Kind::send, at(sum, cut[size_t(p)] * each), {}, length(cut, p) * each, p - leader});
    if (own == 0) return;
    if (leads())
      out_.copies_after.push_back({at(sum, cut[size_t(me_)] * each), result, own});
    else
      call(2, Over::host, {NcclCall::Kind::receive, {}, result, own, 0});
  }

  static bool even_parts(const std::vector<int64_t>& bounds) {
    for (size_t p = 0; p + 1 < bounds.size(); ++p)
      if (bounds[p + 1] - bounds[p] != bounds[1]) return false;
    return true;
  }

  void all_to_all() {
    std::vector<int64_t> cut = bounds(instruction_.table, instruction_.dim);
    std::vector<int64_t> to = bounds(instruction_.to_table, instruction_.to_dim);
    size_t dim = size_t(instruction_.dim), to_dim = size_t(instruction_.to_dim), rank = to_.ranges.size();
    // Of every element along both dimensions.
    int64_t others = 1;
    for (size_t d = 0; d < rank; ++d)
      if (d != dim && d != to_dim) others *= extent(to_, d);
    note_shares(cut);
    Spot sent = source, received = result;
    int64_t outer = product(from_, 0, to_dim);
    if (outer != 1 && from_.count() > 0) {
      sent = scratch(from_.count());
      out_.pack.push_back({{outer, product(from_, to_dim + 1, rank), to, 0, true}, source, sent});
    }
    int64_t result_outer = product(to_, 0, dim);
    if (result_outer != 1 && to_.count() > 0) {
      received = scratch(to_.count());
      out_.unpack.push_back({{result_outer, product(to_, dim + 1, rank), cut, 0, false}, received, result});
    }
    int64_t mine = length(cut, me_) * others, ours = length(to, me_) * others;
    for (int p = 0; p < ranks_; ++p) {
      int64_t send = mine * length(to, p), receive = ours * length(cut, p);
      if (send > 0) out_.calls.push_back({NcclCall::Kind::send, at(sent, mine * to[size_t(p)]), {}, send, p});
      if (receive > 0)
        out_.calls.push_back({NcclCall::Kind::receive, {}, at(received, ours * cut[size_t(p)]), receive, p});
    }
  }

  const SpmdProgram& program_;
  const LocalOp& op_;
  const Instruction& instruction_;
  const int rank_;
  const LocalValue& from_;
  const LocalValue& to_;
  int me_, ranks_;
  GroupHosts hosts_;  ///< hierarchical
  Transfer out_;
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
  for (size_t i = 0; i < ops.size(); ++i) append(out, Planner(program, local, local.ops[size_t(ops[i])]).run(), int(i));
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
