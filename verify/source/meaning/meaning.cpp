#include "verify/source/meaning/meaning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "dsl/base/error.h"
#include "dsl/ir/arithmetic.h"
#include "dsl/ir/interpreter.h"
#include "verify/source/meaning/compute.h"
#include "verify/source/meaning/same_values.h"

namespace hetsynth::source {
namespace {

/// Longest chain of values that are not in memory. Where the norm of all gradients is bounded, their squares are added
/// up in such a chain, and deep models have a thousand parameters. A chain of 3,900 fits into a stack of 2 MiB.
constexpr int deepest = 4000;

/// The operator only says where its input's elements are: reads through it are reads of the input.
bool only_moves(const Node& node) {
  return node.body.kind() == ExprKind::input && !node.space.reduction() &&
         !node.space.inputs[size_t(node.body.index())].zero_outside;
}

/// What a loop hands on or fills turn by turn lies in memory of its own, for as long as the loop runs and behind it.
bool crosses_turns(const Node& node) {
  return node.op->tag() == "carry" || node.op->tag() == "copy" || node.op->tag() == "insert_dimension";
}

/// The dimension along which a sum of operands that give 0 outside of themselves joins tensors of extent 1: at each
/// position one operand is more than 0. -1 if the operator is none.
int joined_dimension(const Node& node, const Program& reference) {
  if (node.op->tag() != "join_turns") return -1;
  for (size_t d = 0; d < node.type.shape.size(); ++d) {
    bool joins = true;
    for (size_t j = 0; joins && j < node.inputs.size(); ++j)
      joins = node.space.inputs[j].zero_outside && reference[node.inputs[j]].type.shape[d] == 1 &&
              node.space.inputs[j].dims[d].offset == -int64_t(j) &&
              node.space.inputs[j].dims[d].terms == node.space.output.dims[d].terms;
    if (joins && node.type.shape[d] == int64_t(node.inputs.size())) return int(d);
  }
  return -1;
}

/// Whether the number of a loop decides something there, by itself: what is looked up by a number in memory is as
/// likely to be met at one point as at another.
bool tells_numbers_apart(const Expr& e) {
  switch (e.kind()) {
    case ExprKind::floor:
    case ExprKind::maximum:
    case ExprKind::minimum:
    case ExprKind::less:
    case ExprKind::less_equal:
    case ExprKind::equal:
      return mentions(e, ExprKind::factor) && !mentions(e, ExprKind::input);
    case ExprKind::select:
      return tells_numbers_apart(e.arg(0)) ||
             (mentions(e.arg(0), ExprKind::factor) && !mentions(e.arg(0), ExprKind::input));
    default:
      return false;
  }
}

/// Of what is remembered for a choice of the unknowns. Without a bound Swin-Huge at its published size spends two
/// thirds of its check on emptying tables.
constexpr size_t most_buckets_kept = 4096;

/// Whether the factors that an operator reduces over leave no point on this rank.
bool reduces_nothing(const Node& node, const std::vector<Range>& ranges) {
  for (size_t f = 0; f < ranges.size(); ++f)
    if (node.space.factors[f].reduced() && ranges[f].lo >= ranges[f].hi) return true;
  return false;
}

}  // namespace

double larger(double a, double b) { return std::isnan(a) || std::isnan(b) ? std::nan("") : std::max(a, b); }

double number(ExprKind kind, double a, double b) {
  switch (kind) {
    case ExprKind::maximum:
    case ExprKind::minimum:
    case ExprKind::less:
    case ExprKind::less_equal:
    case ExprKind::equal:
      if (std::isnan(a) || std::isnan(b)) return std::nan("");
      break;
    default:
      break;
  }
  return *arithmetic(kind, a, b);
}

Meaning::Meaning(const Program& reference, const SpmdProgram& program, int rank)
    : reference_(reference), program_(program), rank_(rank), unknowns_(reference, program) {
  size_t values = program.values.size();
  makers_.assign(values, -1);
  held_.assign(values, false);
  opened_.assign(values, false);
  constant_.assign(values, false);
  view_.assign(values, false);
  kept_copy_.assign(values, false);
  source_.assign(values, -1);
  within_.assign(values, -1);
  copies_.assign(values, 0);
  shown_.assign(values, 0);
  for (size_t v = 0; v < values; ++v) {
    const Value& value = program.values[v];
    ranges_.push_back(local_ranges(program, value.placements, reference[value.node].type.shape, rank));
    counts_.push_back(hetsynth::holds(program.mesh, value.placements, rank) ? part_elements(ranges_.back()) : 0);
    dtypes_.push_back(reference[value.node].type.dtype);
    alias_.push_back(ValueId(v));
  }
  const std::vector<ValueId> first = first_same_values(program);
  std::map<ValueId, std::vector<ValueId>> by_first;
  for (size_t v = 0; v < values; ++v) by_first[first[v]].push_back(ValueId(v));
  for (size_t v = 0; v < values; ++v) same_.push_back(by_first[first[v]]);
  one_hot_.assign(reference.nodes.size(), OneHot{0, 0, 0.0});
  looks_up_.assign(reference.nodes.size(), false);
  joined_dim_.assign(reference.nodes.size(), -1);
  reduced_.resize(reference.nodes.size());
  factors_.resize(deepest + 1);
  moving_.resize(deepest + 1);
  for (size_t n = reference.nodes.size(); n-- > 0;) {
    const Node& node = reference.nodes[n];
    if (node.leaf()) continue;
    joined_dim_[n] = joined_dimension(node, reference);
    OneHot found{0, 0, 0.0};
    if (match_one_hot(node.body, &found) && node.space.factors[size_t(found.factor)].kind == FactorKind::sum &&
        !mentions_factor(node.space.inputs[size_t(found.operand)], found.factor)) {
      one_hot_[n] = found;
      looks_up_[n] = true;
    }
    for (size_t f = 0; f < node.space.factors.size(); ++f)
      if (node.space.factors[f].reduced() && !(looks_up_[n] && int(f) == one_hot_[n].factor))
        reduced_[n].push_back(int(f));
  }
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    makers_[size_t(instruction.result)] = int(i);
    if (instruction.opcode == Opcode::halo_exchange) within_[size_t(instruction.result)] = instruction.operands[0];
    factor_ranges_.emplace_back();
    if (instruction.opcode == Opcode::compute) {
      const Node& node = reference[instruction.node];
      factor_ranges_.back() = factor_ranges(program, node.space, instruction.splits, rank);
      view_[size_t(instruction.result)] =
          (only_moves(node) && !crosses_turns(node)) || joined_dim_[size_t(node.id)] >= 0;
      kept_copy_[size_t(instruction.result)] = crosses_turns(node);
      if (joined_dim_[size_t(node.id)] < 0)
        note_source(instruction);
      else
        joins_.push_back(int(i));
      // A reduction over nothing is its neutral element, whatever is in memory.
      const bool of_nothing = reduces_nothing(node, factor_ranges_.back());
      bool constant = of_nothing || (!node.space.reduction() && !mentions(node.body, ExprKind::random));
      for (size_t j = 0; j < instruction.operands.size(); ++j)
        constant = constant &&
                   (of_nothing || constant_[size_t(instruction.operands[j])] || !mentions_input(node.body, int(j)));
      constant_[size_t(instruction.result)] = constant;
    } else {
      bool local = instruction.opcode == Opcode::slice || instruction.opcode == Opcode::to_partial;
      view_[size_t(instruction.result)] = local;
      note_source(instruction);
      constant_[size_t(instruction.result)] = local && constant_[size_t(instruction.operands[0])];
    }
  }
}

/// A view of all that the rank has of its operand.
void Meaning::note_source(const Instruction& i) {
  const ValueId from = i.operands.empty() ? -1 : i.operands[0];
  if (view_[size_t(i.result)] && i.opcode != Opcode::to_partial && count(from) == count(i.result))
    source_[size_t(i.result)] = source(from);
}

ValueId Meaning::source(ValueId value) const {
  const ValueId from = source_[size_t(value)];
  return from >= 0 ? from : value;
}

void Meaning::hold(ValueId value) {
  change();
  if (held_[size_t(value)]) return;
  held_[size_t(value)] = true;
  ++copies_[size_t(root(value))];
  if (const ValueId from = source_[size_t(value)]; from >= 0) ++shown_[size_t(root(from))];
}

void Meaning::release(ValueId value) {
  change();
  if (!held_[size_t(value)]) return;
  held_[size_t(value)] = false;
  --copies_[size_t(root(value))];
  if (const ValueId from = source_[size_t(value)]; from >= 0) --shown_[size_t(root(from))];
}

/// Whether elements of a value are looked up in another one, as a view of it or of views of it.
bool Meaning::shows(ValueId value, ValueId other) const {
  std::vector<ValueId> open{value};
  std::set<ValueId> seen{value};
  while (!open.empty()) {
    const ValueId now = open.back();
    open.pop_back();
    if (now == other) return true;
    std::vector<ValueId> behind;
    if (view_[size_t(now)]) behind = program_.instructions[size_t(makers_[size_t(now)])].operands;
    if (within_[size_t(now)] >= 0) behind.push_back(within_[size_t(now)]);
    for (ValueId next : behind)
      if (seen.insert(root(next)).second) open.push_back(root(next));
  }
  return false;
}

void Meaning::identify(ValueId value, ValueId with) {
  const ValueId from = root(value), to = root(with);
  // A device that holds all of what it takes a part of has a view that is the same as what it shows.
  if (from == to || shows(to, from)) return;
  change();
  for (std::vector<int>* counts : {&copies_, &shown_})
    (*counts)[size_t(to)] += std::exchange((*counts)[size_t(from)], 0);
  alias_[size_t(from)] = to;
}

ValueId Meaning::first_in_memory(ValueId value) const {
  const ValueId first = root(value);
  return !held_[size_t(value)] && opaque(first) ? first : -1;
}

ValueId Meaning::root(ValueId value) const {
  while (alias_[size_t(value)] != value) value = alias_[size_t(value)];
  return value;
}

void Meaning::open(const std::set<ValueId>& values) {
  std::fill(opened_.begin(), opened_.end(), false);
  for (ValueId value : values) opened_[size_t(root(value))] = true;
  any_opened_ = !values.empty();
  change();
}

void Meaning::choose_anew(const Sample& sample) {
  changed_ = true;
  choose(sample);
}

void Meaning::choose(const Sample& sample, bool float_constants) {
  if (!changed_ && sample == sample_ && float_constants == float_constants_) return;
  changed_ = false;
  ++moment_;
  sample_ = sample;
  float_constants_ = float_constants;
  // Emptying a table takes as long as it has buckets, which stay as many as there ever were elements.
  if (known_.bucket_count() > most_buckets_kept)
    std::unordered_map<uint64_t, double>().swap(known_);
  else
    known_.clear();
}

int64_t Meaning::flat(ValueId value, const Index& index) const {
  const Shape& shape = reference_[program_.values[size_t(value)].node].type.shape;
  int64_t at = 0;
  for (size_t d = 0; d < index.size(); ++d) at = at * shape[d] + index[d];
  return at;
}

Index Meaning::index_of(ValueId value, int64_t position) const {
  const Shape& extents = shape(value);
  Index out(extents.size());
  for (size_t d = extents.size(); d-- > 0; position /= extents[d]) out[d] = position % extents[d];
  return out;
}

bool Meaning::opaque(ValueId value) const {
  value = root(value);
  size_t v = size_t(value);
  return known(value) && !view_[v] && !constant_[v] && !opened_[v] && within_[v] < 0;
}

double Meaning::unknown(ValueId value, int64_t position) const {
  value = root(any_opened_ ? first_of_same(value) : value);
  asked_ = std::max(asked_, unknowns_.asks(value));
  return unknowns_.at(value, position, sample_);
}

/// Of a value that is in memory, the first one that is the same and in memory, too: what was made for the forward pass
/// is the same number as what the backward pass makes again.
ValueId Meaning::first_of_same(ValueId value) const {
  for (ValueId same : same_[size_t(value)])
    if (opaque(same)) return same;
  return value;
}

/// Another value that is the same and in memory; -1 without one.
ValueId Meaning::same_in_memory(ValueId value) const {
  for (ValueId same : same_[size_t(value)])
    if (root(same) != value && (held_[size_t(same)] || opaque(same)) && !opened_[size_t(root(same))]) return same;
  return -1;
}

bool Meaning::in_part(ValueId value, const Index& index) const {
  const std::vector<Range>& part = ranges_[size_t(value)];
  for (size_t d = 0; d < index.size(); ++d)
    if (index[d] < part[d].lo || index[d] >= part[d].hi) return false;
  return true;
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

std::vector<Range> Meaning::summed_over(ValueId value) const {
  value = root(value);
  const int maker = makers_[size_t(value)];
  if (maker < 0 || view_[size_t(value)] || constant_[size_t(value)]) return {};
  const Instruction& i = program_.instructions[size_t(maker)];
  if (i.opcode != Opcode::compute || looks_up_[size_t(i.node)] || joined_dim_[size_t(i.node)] >= 0 ||
      reference_[i.node].space.reduction() != FactorKind::sum)
    return {};
  std::vector<Range> out;
  for (int f : reduced_[size_t(i.node)]) out.push_back(factor_ranges_[size_t(maker)][size_t(f)]);
  return out;
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
      return rounds() ? number(e.kind(), arg(0), 0) : arg(0);
    default:
      return number(e.kind(), arg(0), e.args().size() > 1 ? arg(1) : 0);
  }
}

}  // namespace hetsynth::source
