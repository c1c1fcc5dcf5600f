#include "codegen/text/kernel.h"

#include <algorithm>

namespace hetsynth::codegen {
namespace {

bool mentions_index(const Expr& e, int factor) {
  if (e.kind() == ExprKind::factor) return e.index() == factor;
  return std::any_of(e.args().begin(), e.args().end(), [&](const Expr& a) { return mentions_index(a, factor); });
}

class KernelMaker {
 public:
  KernelMaker(const Lowered& lowered, const Group& group) : lowered_(lowered), group_(group) {
    kernel_.loops = group.loops;
    kernel_.passes = group.passes;
  }

  Kernel run() {
    for (const Member& member : group_.members) add(member);
    for (int l = int(kernel_.loops.size()) - 2; l >= 0; --l)
      if (can_collapse(l)) collapse(l);
    for_each_address([&](const Address& a) { kernel_.uses_turn = kernel_.uses_turn || a.per_turn != 0; });
    return std::move(kernel_);
  }

 private:
  void add(const Member& member) {
    const LocalOp& op = lowered_.op(member);
    KernelMember out;
    out.op = &op;
    out.role = member.role;
    out.level = member.level;
    out.over_inner = member.over_inner;
    int looked_up = int(kernel_.loops.size());
    for (size_t f = 0; f < op.factors.size(); ++f)
      out.counter.push_back(int(f) == op.looked_up() ? looked_up : member.loop[f]);
    for (size_t f = 0; f < op.factors.size(); ++f)
      out.reduces_inner = out.reduces_inner || (op.factors[f].reduced() && out.counter[f] == kernel_.inner());
    for (size_t j = 0; j < op.inputs.size(); ++j) out.reads.push_back(read(member, out, int(j)));
    out.store = over_counters(lowered_.layouts.written(op), out);
    if (member.stored) out.stored = parameter(op.result, true);
    const LocalValue& result = lowered_.local.values[op.result];
    out.result_count = result.count();
    out.dtype = result.type.dtype;
    out.whole = out.result_count == 1 && !op.one_hot;
    if (mentions(op.body, ExprKind::random)) out.random_index = random_index(op, out);
    kernel_.uses_step = kernel_.uses_step || mentions(op.body, ExprKind::step) || out.random_index;
    kernel_.uses_seed = kernel_.uses_seed || out.random_index;
    kernel_.members.push_back(out);
  }

  KernelRead read(const Member& member, const KernelMember& out, int input) {
    const LocalOp& op = *out.op;
    KernelRead read;
    read.source = member.source[input];
    read.address = over_counters(lowered_.layouts.read(op, input), out);
    read.picks = op.one_hot && mentions_factor(op.inputs[input].access, op.looked_up());
    if (read.source < 0) read.parameter = parameter(op.inputs[input].value, false);
    if (op.inputs[input].access.zero_outside) guard(read, op, out, input);
    return read;
  }

  void guard(KernelRead& read, const LocalOp& op, const KernelMember& out, int input) const {
    const Access& access = op.inputs[input].access;
    const Shape& shape = lowered_.local.values[op.inputs[input].value].type.shape;
    for (size_t d = 0; d < access.dims.size(); ++d) {
      Bounds b = bounds(access.dims[d], op.ranges);
      read.always_zero = read.always_zero || b.hi < 0 || b.lo >= shape[d];
      if (b.lo < 0 || b.hi >= shape[d])
        read.guards.push_back(
            {over_counters(address(access.dims[d], op.ranges), out), shape[d], b.lo < 0, b.hi >= shape[d]});
    }
  }

  Address random_index(const LocalOp& op, const KernelMember& out) const {
    return over_counters(draw_number(op, lowered_.local.values[op.result].type.shape), out);
  }

  Address over_counters(const Address& over_factors, const KernelMember& member) const {
    Address out;
    out.constant = over_factors.constant;
    out.per_turn = over_factors.per_turn;
    out.coefficients.assign(kernel_.loops.size() + 1, 0);
    for (size_t f = 0; f < over_factors.coefficients.size(); ++f)
      if (member.counter[f] >= 0) out.coefficients[member.counter[f]] += over_factors.coefficients[f];
    for (Address::Term term : over_factors.others) {
      term.counter = member.counter[term.counter];
      out.others.push_back(term);
    }
    return out;
  }

  int parameter(ValueId value, bool written) {
    ValueId storage = lowered_.storage(value);
    for (size_t p = 0; p < kernel_.parameters.size(); ++p)
      if (kernel_.parameters[p].value == storage) {
        kernel_.parameters[p].written = kernel_.parameters[p].written || written;
        return int(p);
      }
    kernel_.parameters.push_back({storage, lowered_.local.values[value].type.dtype, written});
    return int(kernel_.parameters.size()) - 1;
  }

  template <class Function>
  void for_each_address(Function function) {
    for (KernelMember& member : kernel_.members) {
      for (KernelRead& read : member.reads) {
        function(read.address);
        for (Guard& guard : read.guards) function(guard.index);
      }
      function(member.store);
      if (member.random_index) function(*member.random_index);
    }
  }

  /// Two neighbouring loops can run as one if every address sees them as one and no body asks for either index.
  bool can_collapse(int l) {
    bool fits = true;
    int64_t inner = kernel_.loops[l + 1].extent();
    for_each_address([&](const Address& a) {
      fits = fits && a.coefficients[l] == a.coefficients[l + 1] * inner;
      for (const Address::Term& term : a.others) fits = fits && term.counter != l && term.counter != l + 1;
    });
    for (const KernelMember& member : kernel_.members) fits = fits && treats_alike(member, l);
    return fits;
  }

  bool treats_alike(const KernelMember& member, int l) const {
    int outer = 0, inner = 0;  // 0: absent, 1: kept, 2: reduced
    for (size_t f = 0; f < member.counter.size(); ++f) {
      int how = member.op->factors[f].reduced() ? 2 : 1;
      if (member.counter[f] == l) outer = how;
      if (member.counter[f] == l + 1) inner = how;
      if ((member.counter[f] == l || member.counter[f] == l + 1) && mentions_index(member.op->body, int(f)))
        return false;
    }
    return outer == inner;
  }

  void collapse(int l) {
    Loop& outer = kernel_.loops[l];
    const Loop& inner = kernel_.loops[l + 1];
    outer = {outer.name + inner.name, {0, outer.extent() * inner.extent()}};
    kernel_.loops.erase(kernel_.loops.begin() + l + 1);
    for_each_address([&](Address& a) {
      a.coefficients.erase(a.coefficients.begin() + l);
      for (Address::Term& term : a.others) term.counter -= term.counter > l;
    });
    for (KernelMember& member : kernel_.members)
      for (int& counter : member.counter) counter -= counter > l;
  }

  const Lowered& lowered_;
  const Group& group_;
  Kernel kernel_;
};

}  // namespace

bool Kernel::no_rows() const {
  size_t rows = loops.empty() ? 0 : loops.size() - 1;
  for (size_t l = 0; l < rows; ++l)
    if (loops[l].extent() == 0) return true;
  return false;
}

bool Kernel::nothing_to_do() const {
  bool inner_empty = !loops.empty() && loops.back().extent() == 0;
  for (const KernelMember& member : members) {
    if (member.stored < 0) continue;
    bool per_row = member.role == Role::row || member.role == Role::row_reduce;
    if (member.role == Role::accumulate || (per_row && !no_rows())) return false;
    if (member.role == Role::element && !no_rows() && !inner_empty) return false;
  }
  return true;
}

Kernel make_kernel(const Lowered& lowered, const Group& group) { return KernelMaker(lowered, group).run(); }

}  // namespace hetsynth::codegen
