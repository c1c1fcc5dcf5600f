// What an element of a value is: an unknown if it lies in memory, and else what the program computes it from.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "dsl/ir/arithmetic.h"
#include "dsl/ir/interpreter.h"
#include "verify/source/meaning/compute.h"

namespace hetsynth::source {
namespace {

/// Whether the number of a loop decides something there, by itself: what is looked up by a number in memory is as
/// likely to be met at one point as at another.
bool tells_numbers_apart(const Expr& e) {
  const auto of_numbers_alone = [](const Expr& part) {
    return mentions(part, ExprKind::factor) && !mentions(part, ExprKind::input);
  };
  if (e.kind() == ExprKind::select) return tells_numbers_apart(e.arg(0)) || of_numbers_alone(e.arg(0));
  return (e.kind() == ExprKind::floor || compares(e.kind())) && of_numbers_alone(e);
}

}  // namespace

double larger(double a, double b) { return std::isnan(a) || std::isnan(b) ? std::nan("") : std::max(a, b); }

double number(ExprKind kind, double a, double b) {
  if (compares(kind) && (std::isnan(a) || std::isnan(b))) return std::nan("");
  return *arithmetic(kind, a, b);
}

double Meaning::at(ValueId value, const Index& index) {
  const ValueId own = value;
  value = root(value);
  if (!in_part(value, index))
    throw NotHeld(value, fmt::format("{} has no such element here", program_.values[size_t(value)].name));
  if (const ValueId part = within_[size_t(value)]; part >= 0 && in_part(part, index)) {
    // It stays what it is when the part itself is gone.
    const bool gone = copies_[size_t(value)] > 0 && !known(root(part)) && !view_[size_t(root(part))];
    if (!gone) return at(part, index);
  }
  if (view_[size_t(value)] && copies_[size_t(value)] > 0) {
    try {
      return through(value, index);
    } catch (const NotHeld&) {
      return unknown(value, flat(value, index));  // it lies in memory as a copy; what it shows is gone
    }
  }
  if (view_[size_t(value)] || constant_[size_t(value)]) return through(value, index);
  if (known(value) && !opened_[size_t(value)]) return unknown(value, flat(value, index));
  // What the forward pass made or gathered, and a result is opened for, is what the backward pass makes anew.
  if (any_opened_ && !opened_[size_t(value)])
    if (const ValueId same = same_in_memory(value); same >= 0) return at(same, index);
  return by_own_or_first(own, [&](ValueId v) { return made(v, index); });
}

/// The instruction that computes a value which is not in memory.
const Instruction& Meaning::computed_by(ValueId value) const {
  const int maker = makers_[size_t(value)];
  if (maker < 0 || program_.instructions[size_t(maker)].opcode != Opcode::compute)
    throw NotHeld(value, fmt::format("{} is not in memory", program_.values[size_t(value)].name));
  return program_.instructions[size_t(maker)];
}

/// As its instruction computes it.
double Meaning::made(ValueId value, const Index& index) {
  const Instruction& maker = computed_by(value);
  const uint64_t key = (uint64_t(value) << 40) ^ uint64_t(flat(value, index));
  auto [entry, fresh] = known_.try_emplace(key, 0.0);
  if (!fresh) return entry->second;
  double result = 0;
  try {
    result = compute(maker, index);
  } catch (...) {
    known_.erase(key);
    throw;
  }
  return known_[key] = result;
}

double Meaning::through(ValueId value, const Index& index) {
  const Instruction& i = program_.instructions[size_t(makers_[size_t(value)])];
  if (i.opcode == Opcode::compute) return compute(i, index);
  if (i.opcode == Opcode::to_partial && program_.mesh.coordinate(rank_, i.axis) != i.root) return 0;
  return at(i.operands[0], index);
}

double Meaning::compute(const Instruction& instruction, const Index& index, const std::vector<int64_t>* point_of_sum) {
  const Node& node = reference_[instruction.node];
  if (const int dim = joined_dim_[size_t(node.id)]; dim >= 0) {
    Index part = index;
    part[size_t(dim)] = 0;
    const ValueId from = instruction.operands[size_t(index[size_t(dim)])];
    // What lies in memory in pieces is read like what lies in one; what is computed may be so in another way for each.
    if (watch_ && !index_[size_t(dim)].constant() && !opaque(from)) watch_->alike = false;
    if (watch_) index_[size_t(dim)] = {};
    return at(from, part);
  }
  const std::vector<Range>& ranges = factor_ranges_[size_t(&instruction - program_.instructions.data())];
  if (++depth_ > deepest) {
    --depth_;
    throw TooLong();
  }
  struct Leave {
    int& depth;
    std::vector<Linear>& index;
    std::vector<Linear> before;
    ~Leave() { --depth, index = std::move(before); }
  } leave{depth_, index_, index_};
  Compute frame{instruction, node, factors_[size_t(depth_)], index};
  frame.factor.assign(node.space.factors.size(), 0);
  // A dimension's index spelled in its terms' digits, outermost first, gives the factors.
  for (size_t d = 0; d < index.size(); ++d) {
    int64_t rest = index[d] - node.space.output.dims[d].offset;
    for (const IndexTerm& term : node.space.output.dims[d].terms) {
      frame.factor[size_t(term.factor)] += rest / term.stride * term.divide;
      rest %= term.stride;
    }
  }
  if (watch_) follow_index(frame, point_of_sum);
  const std::vector<int>& reduced = reduced_[size_t(node.id)];
  bool lookup = looks_up_[size_t(node.id)];
  const OneHot& hot = one_hot_[size_t(node.id)];
  bool is_max = node.space.reduction() == FactorKind::max;
  double total = is_max ? -std::numeric_limits<double>::infinity() : 0.0;
  auto point = [&] {
    if (lookup) {
      double position = operand(frame, hot.operand);
      const Range& range = ranges[size_t(hot.factor)];
      if (!(position >= double(range.lo) && position < double(range.hi))) return;
      frame.factor[size_t(hot.factor)] = int64_t(position);
      total += evaluate(hot.rest, frame);
    } else {
      double v = evaluate(node.body, frame);
      total = is_max ? larger(total, v) : total + v;
    }
  };
  if (!node.space.reduction()) return evaluate(node.body, frame);
  auto loop = [&](auto&& self, size_t level) -> void {
    if (level == reduced.size()) return point();
    const Range& range = ranges[size_t(reduced[level])];
    int64_t& counter = frame.factor[size_t(reduced[level])];
    if (point_of_sum && (*point_of_sum)[level] >= 0) {
      counter = (*point_of_sum)[level];
      return self(self, level + 1);
    }
    for (counter = range.lo; counter < range.hi; ++counter) self(self, level + 1);
  };
  loop(loop, 0);
  return total;
}

double Meaning::operand(Compute& frame, int j) {
  const Access& access = frame.node.space.inputs[size_t(j)];
  ValueId value = frame.instruction.operands[size_t(j)];
  const Shape& shape = reference_[program_.values[size_t(value)].node].type.shape;
  Index index(access.dims.size());
  if (watch_) index_.assign(access.dims.size(), {});
  for (size_t d = 0; d < access.dims.size(); ++d) {
    int64_t at = access.dims[d].offset;
    for (const IndexTerm& t : access.dims[d].terms) {
      int64_t i = frame.factor[size_t(t.factor)] / t.divide;
      at += (t.modulo ? i % t.modulo : i) * t.stride;
    }
    if (watch_) index_[d] = follow_access(frame, access.dims[d]);
    if (access.zero_outside && watch_) note_bounds(index_[d], at, shape[d]);
    if (access.zero_outside && (at < 0 || at >= shape[d])) return 0;
    index[d] = at;
  }
  return at(value, index);
}

double Meaning::evaluate(const Expr& e, Compute& frame) {
  if (++work > limit && limit > 0) throw TooLong();
  if (++in_all > most_in_all && most_in_all > 0) throw SpentAll();
  auto arg = [&](int i) { return evaluate(e.arg(i), frame); };
  if (watch_ && tells_numbers_apart(e) && moves(e)) watch_->alike = false;
  switch (e.kind()) {
    case ExprKind::input:
      return operand(frame, e.index());
    case ExprKind::factor:
      return double(frame.factor[size_t(e.index())]);
    case ExprKind::constant:
      return float_constants_ ? double(float(e.value())) : e.value();
    case ExprKind::step:
      return double(step());
    case ExprKind::random: {
      const Shape& shape = frame.node.type.shape;
      int64_t at = 0;
      for (size_t d = 0; d < frame.output.size(); ++d) at = at * shape[d] + frame.output[d];
      at += frame.node.space.first_draw;
      return philox_uniform(Sample::run_seed, e.index(), uint64_t(at), uint64_t(step()));
    }
    case ExprKind::select: {
      double condition = arg(0);
      return std::isnan(condition) ? condition : condition != 0 ? arg(1) : arg(2);
    }
    case ExprKind::round_bf16:
    case ExprKind::round_fp16:
      return rounds() ? number(e.kind(), arg(0), 0) : arg(0);
    default:
      return number(e.kind(), arg(0), e.args().size() > 1 ? arg(1) : 0);
  }
}

}  // namespace hetsynth::source
