#include "codegen/cuda/transfers/host_transfer.h"

#include "codegen/cuda/transfers/transfer_planner.h"
#include "dsl/base/error.h"
#include "dsl/spmd/hosts.h"

namespace hetsynth::codegen::cuda {
namespace {

using Over = NcclCall::Over;

class HostPlanner : private TransferPlanner {
 public:
  HostPlanner(const SpmdProgram& program, const LocalProgram& local, const LocalOp& op, Transfer& out)
      : TransferPlanner(program, local, op, out), hosts_(hosts_of_group(program, instruction_.axis, rank_)) {}

  void run() {
    switch (instruction_.opcode) {
      case Opcode::all_reduce:
        return all_reduce();
      case Opcode::all_gather:
        return all_gather();
      case Opcode::reduce_scatter:
        return reduce_scatter();
      case Opcode::broadcast:
        return broadcast();
      case Opcode::all_to_all:
        return alone() ? all_to_all_alone() : all_to_all();
      default:
        throw InternalError("a collective with levels");
    }
  }

 private:
  bool alone() const { return hosts_.members(hosts_.host) == 1; }
  bool leads() const { return me_ == hosts_.leader(); }

  void call(int phase, Over over, NcclCall call) {
    call.over = over;
    call.phase = phase;
    out_.calls.push_back(call);
  }

  void all_reduce() {
    const int64_t count = from_.count();
    if (count == 0) return;
    if (!alone()) call(0, Over::host, {NcclCall::Kind::reduce, source, result, count, 0});
    if (leads() && hosts_.count() > 1)
      call(1, Over::leaders, {NcclCall::Kind::all_reduce, alone() ? source : result, result, count, -1});
    if (!alone()) call(2, Over::host, {NcclCall::Kind::broadcast, result, result, count, 0});
  }

  /// Shares in coordinate order, so that those of a host lie one after the other: in place.
  void all_gather() {
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
      if (hosts_.count() > 1 && even(blocks))
        call(1, Over::leaders, {NcclCall::Kind::all_gather, block, whole, blocks[1] * each, -1});
      else if (hosts_.count() > 1)
        for (int h = 0; h < hosts_.count(); ++h)
          if (const Spot part = at(whole, blocks[size_t(h)] * each); length(blocks, h) > 0)
            call(1, Over::leaders, {NcclCall::Kind::broadcast, part, part, length(blocks, h) * each, h});
    }
    if (!alone()) call(2, Over::host, {NcclCall::Kind::broadcast, whole, whole, cut.back() * each, 0});
    if (outer != 1) out_.unpack.push_back({{outer, inner, cut, 0, false}, whole, result});
  }

  void reduce_scatter() {
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
      if (even(blocks))
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

  void broadcast() {
    const int64_t count = to_.count();
    if (count == 0) return;
    const bool with_root = hosts_.here(instruction_.root), root = me_ == instruction_.root;
    // Where only the root holds anything, the others name the result as what they would send.
    const Spot given = root ? source : result;
    if (with_root && !alone())
      call(0, Over::host, {NcclCall::Kind::broadcast, given, result, count, instruction_.root - hosts_.leader()});
    if (leads() && hosts_.count() > 1)
      call(1, Over::leaders,
           {NcclCall::Kind::broadcast, alone() ? given : result, result, count, hosts_.host_of(instruction_.root)});
    if (!with_root && !alone()) call(2, Over::host, {NcclCall::Kind::broadcast, result, result, count, 0});
  }

  void send(int phase, Over over, Spot from, int64_t count, int peer) {
    if (count > 0) call(phase, over, {NcclCall::Kind::send, from, {}, count, peer});
  }
  void receive(int phase, Over over, Spot to, int64_t count, int peer) {
    if (count > 0) call(phase, over, {NcclCall::Kind::receive, {}, to, count, peer});
  }

  /// Its host's only device leads it: blocks are sent from where they lie and received where they belong.
  void all_to_all_alone() {
    const Pieces x = exchanged();
    const std::vector<int64_t> cut = bounds_by_host(hosts_, x.cut), to = bounds_by_host(hosts_, x.to);
    for (int h = 0; h < hosts_.count(); ++h) {
      send(1, Over::leaders, at(x.sent, x.mine * to[size_t(h)]), x.mine * length(to, h), h);
      receive(1, Over::leaders, at(x.received, x.ours * cut[size_t(h)]), x.ours * length(cut, h), h);
    }
  }

  /// Calls between two ranks meet in the order in which they stand: what stays in the host first, then host by host.
  void all_to_all() {
    const Pieces x = exchanged();
    const int own = hosts_.host, leader = hosts_.leader();
    const std::vector<int64_t> cut = bounds_by_host(hosts_, x.cut), to = bounds_by_host(hosts_, x.to);
    for (int p = leader; p < hosts_.end(); ++p) {
      send(0, Over::host, at(x.sent, x.mine * x.to[size_t(p)]), x.mine * length(x.to, p), p - leader);
      receive(0, Over::host, at(x.received, x.ours * x.cut[size_t(p)]), x.ours * length(x.cut, p), p - leader);
    }
    for (int h = 0; h < hosts_.count(); ++h)
      if (h != own) send(0, Over::host, at(x.sent, x.mine * to[size_t(h)]), x.mine * length(to, h), 0);
    if (leads()) pass_on(x, cut, to);
    for (int p = 0; p < ranks_; ++p)
      if (!hosts_.here(p))
        receive(2, Over::host, at(x.received, x.ours * x.cut[size_t(p)]), x.ours * length(x.cut, p), 0);
  }

  /// The leader holds a block for every other host, sender by sender, and then one of every other host. `cut`, `to`: by
  /// host.
  void pass_on(const Pieces& x, const std::vector<int64_t>& cut, const std::vector<int64_t>& to) {
    const int own = hosts_.host, leader = hosts_.leader();
    const int64_t sent = length(cut, own) * x.others, received = length(to, own) * x.others;
    const int64_t leaving = sent * (to.back() - length(to, own)), arriving = received * (cut.back() - length(cut, own));
    if (leaving + arriving == 0) return;
    const Spot middle = scratch(leaving + arriving);
    const auto block_for = [&](int h) { return at(middle, sent * (to[size_t(h)] - (h > own ? length(to, own) : 0))); };
    const auto block_of = [&](int h) {
      return at(middle, leaving + received * (cut[size_t(h)] - (h > own ? length(cut, own) : 0)));
    };
    for (int p = leader; p < hosts_.end(); ++p)
      for (int h = 0; h < hosts_.count(); ++h)
        if (const int64_t each = x.others * length(to, h); h != own)
          receive(0, Over::host, at(block_for(h), each * (x.cut[size_t(p)] - cut[size_t(own)])),
                  each * length(x.cut, p), p - leader);
    for (int h = 0; h < hosts_.count(); ++h) {
      if (h == own) continue;
      send(1, Over::leaders, block_for(h), sent * length(to, h), h);
      receive(1, Over::leaders, block_of(h), received * length(cut, h), h);
    }
    for (int p = leader; p < hosts_.end(); ++p)
      for (int q = 0; q < ranks_; ++q) {
        if (hosts_.here(q)) continue;
        const int h = hosts_.host_of(q);
        const int64_t before = received * (x.cut[size_t(q)] - cut[size_t(h)]), each = x.others * length(x.cut, q);
        send(2, Over::host, at(block_of(h), before + each * (x.to[size_t(p)] - to[size_t(own)])),
             each * length(x.to, p), p - leader);
      }
  }

  const GroupHosts hosts_;
};

}  // namespace

void plan_by_host(const SpmdProgram& program, const LocalProgram& local, const LocalOp& op, Transfer& out) {
  HostPlanner(program, local, op, out).run();
}

}  // namespace hetsynth::codegen::cuda
