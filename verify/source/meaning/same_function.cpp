// Whether two values of the program are the same function of values that stand for each other: the same operators, over
// the same ranges, of operands that are so in turn.
#include "verify/source/meaning/meaning.h"

namespace hetsynth::source {
namespace {

/// Longest chain of operators that is followed.
constexpr int deepest_comparison = 200;

bool same_body(const Expr& then, const Expr& now, const std::map<int64_t, int64_t>& streams) {
  if (then.kind() != now.kind() || then.args().size() != now.args().size()) return false;
  if (then.kind() == ExprKind::random) {
    const auto stream = streams.find(then.index());
    return now.index() == (stream == streams.end() ? then.index() : stream->second);
  }
  if (then.index() != now.index() || then.value() != now.value()) return false;
  for (size_t i = 0; i < then.args().size(); ++i)
    if (!same_body(then.args()[i], now.args()[i], streams)) return false;
  return true;
}

}  // namespace

bool Meaning::pairs(ValueId then, ValueId now, Twins& twins) const {
  then = root(then), now = root(now);
  const NodeId a = program_.values[size_t(then)].node, b = program_.values[size_t(now)].node;
  if (ranges_[size_t(then)] != ranges_[size_t(now)] || reference_[a].type != reference_[b].type) return false;
  return twins.try_emplace(then, now).first->second == now;
}

bool Meaning::made_here(ValueId value) const {
  const int maker = makers_[size_t(value)];
  return maker >= 0 && (program_.instructions[size_t(maker)].opcode == Opcode::compute || view_[size_t(value)]);
}

std::set<ValueId> Meaning::unknowns_behind(const std::vector<ValueId>& values, const std::set<ValueId>& opened) const {
  std::set<ValueId> out, seen, roots;
  for (ValueId value : opened) roots.insert(root(value));
  std::vector<ValueId> open;
  const auto look = [&](ValueId value, bool made) {
    value = root(value);
    if (!seen.insert(value).second) return;
    if (made || (made_here(value) && (!opaque(value) || roots.count(value))))
      open.push_back(value);
    else
      out.insert(value);
  };
  for (ValueId value : values) look(value, true);
  for (ValueId value : roots) look(value, true);
  while (!open.empty()) {
    const int maker = makers_[size_t(open.back())];
    open.pop_back();
    if (maker >= 0)
      for (ValueId operand : program_.instructions[size_t(maker)].operands) look(operand, false);
  }
  return out;
}

bool Meaning::same_function(ValueId then, ValueId now, Twins& twins, const Known& known) const {
  Known roots{{}, {}, known.streams};
  for (ValueId value : known.opened) roots.opened.insert(root(value));
  for (ValueId value : known.unknowns) roots.unknowns.insert(root(value));
  // What a sum in memory was taken for as what it is computed from must be computed so now.
  for (ValueId value : roots.opened)
    if (const auto twin = twins.find(value); twin != twins.end() && !same_maker(value, twin->second, twins, roots, 0))
      return false;
  then = root(then), now = root(now);
  return same_maker(then, now, twins, roots, 0) && pairs(then, now, twins);
}

bool Meaning::same_operand(ValueId then, ValueId now, Twins& twins, const Known& known, int depth) const {
  then = root(then), now = root(now);
  if (const auto twin = twins.find(then); twin != twins.end()) return twin->second == now;
  // Whatever it is, as it is no part of what was compared: it stands for whatever the other one is.
  if (known.unknowns.count(then) || !made_here(then)) return pairs(then, now, twins);
  return same_maker(then, now, twins, known, depth) && pairs(then, now, twins);
}

bool Meaning::same_maker(ValueId then, ValueId now, Twins& twins, const Known& known, int depth) const {
  const int a = makers_[size_t(then)], b = makers_[size_t(now)];
  if (depth > deepest_comparison || a < 0 || b < 0 || ranges_[size_t(then)] != ranges_[size_t(now)]) return false;
  const Instruction &one = program_.instructions[size_t(a)], &other = program_.instructions[size_t(b)];
  if (one.opcode != other.opcode || one.operands.size() != other.operands.size()) return false;
  if (one.opcode == Opcode::compute) {
    const Node &x = reference_[one.node], &y = reference_[other.node];
    if (x.type != y.type || x.op->tag() != y.op->tag() || !(x.space == y.space) ||
        !same_body(x.body, y.body, known.streams) || factor_ranges_[size_t(a)] != factor_ranges_[size_t(b)] ||
        joined_dim_[size_t(x.id)] != joined_dim_[size_t(y.id)])
      return false;
  } else if (one.axis != other.axis || one.root != other.root || !view_[size_t(then)] || !view_[size_t(now)]) {
    return false;
  }
  for (size_t j = 0; j < one.operands.size(); ++j)
    if (!same_operand(one.operands[j], other.operands[j], twins, known, depth + 1)) return false;
  return true;
}

}  // namespace hetsynth::source
