#include "verify/source/meaning/meaning.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "verify/source/meaning/compute.h"
#include "verify/source/meaning/same_values.h"

namespace hetsynth::source {
namespace {

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

/// A table of elements that were computed for one choice of the unknowns is thrown away, not emptied, if it has more
/// buckets than this. Without it Swin-Huge-32 at its published size spends two thirds of its check on emptying tables.
constexpr size_t most_buckets_kept = 4096;

/// Whether the factors that an operator reduces over leave no point on this rank.
bool reduces_nothing(const Node& node, const std::vector<Range>& ranges) {
  for (size_t f = 0; f < ranges.size(); ++f)
    if (node.space.factors[f].reduced() && ranges[f].lo >= ranges[f].hi) return true;
  return false;
}

}  // namespace

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

}  // namespace hetsynth::source
