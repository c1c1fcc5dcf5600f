// Why the local obligation of a compute instruction failed, in words of the plan.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "verify/rules/rules.h"

namespace hetsynth {

namespace {

using Kind = Placement::Kind;

/// Where windows slide along the split factor: that they reach further than what a device holds. Empty if they are not
/// the reason.
std::string outside_of_halo(const Subject& s, const Node& node, const Held& operand, int position, int axis,
                            const Split& split) {
  const std::optional<WindowCut> windows =
      window_cut_of(node.space, node.space.inputs[size_t(position)], s.node(operand.node).type.shape, split.factor);
  const Placement& held = operand.placements[size_t(axis)];
  if (!windows || windows->dim != held.dim || s.table_of.at(split.table) != held.table) return "";
  return fmt::format(
      "{} reads {} elements of {} before each part over axis {} and {} after it, but devices hold {} and {}", node.name,
      windows->before, s.node(operand.node).name, s.axis(axis).name, windows->after, held.before, held.after);
}

std::string explain_bounds(const Subject& s, const Instruction& i, const Held& operand, int position) {
  const Node& node = s.node(i.node);
  const std::string& tensor = s.node(operand.node).name;
  for (int a = 0; a < s.axis_count(); ++a) {
    const Placement& p = operand.placements[a];
    if (p.kind != Kind::sharded) continue;
    const Split& split = i.splits[a];
    const std::string& axis = s.axis(a).name;
    std::optional<FactorCut> cut;
    if (split.factor >= 0)
      cut = cut_of(node.space, node.space.inputs[position], s.node(operand.node).type.shape, split.factor);
    if (split.factor >= 0 && !cut)
      if (std::string why = outside_of_halo(s, node, operand, position, a, split); !why.empty()) return why;
    if (!cut)
      return fmt::format("{} is needed whole over axis {} by {} but is cut in dimension {}", tensor, axis, node.name,
                         p.dim);
    if (cut->dim != p.dim)
      return fmt::format("{} is needed cut in dimension {} over axis {} by {} but is cut in dimension {}", tensor,
                         cut->dim, axis, node.name, p.dim);
    if (s.table_of.at(split.table) != p.table)
      return fmt::format("{} is cut by table {} over axis {}, but {} runs over the parts of table {}", tensor,
                         s.program.tables[p.table].name, axis, node.name, s.program.tables[split.table].name);
  }
  return fmt::format("{} reads {} outside of what a device holds", node.name, tensor);
}

/// Whether a value standing for the tensor is ever summed (or otherwise reduced) over the axis.
bool ever_reduced(const Subject& s, NodeId tensor, int axis) {
  return std::any_of(s.program.instructions.begin(), s.program.instructions.end(), [&](const Instruction& i) {
    bool reduces = i.opcode == Opcode::all_reduce || i.opcode == Opcode::reduce_scatter;
    return reduces && i.axis == axis && s.program.values[i.operands[0]].node == tensor;
  });
}

std::string explain_additive(const Subject& s, const Instruction& i, const std::vector<Held>& operands, int entry) {
  for (int a = 0; a < s.axis_count(); ++a)
    for (const Held& operand : operands) {
      if (operand.placements[a].kind != Kind::partial) continue;
      if (entry-- > 0) break;
      const std::string& tensor = s.node(operand.node).name;
      if (!ever_reduced(s, operand.node, a))
        return fmt::format("{} is partial over axis {} and never reduced, but {} is not additive in it", tensor,
                           s.axis(a).name, s.node(i.node).name);
      return fmt::format(
          "{} is partial over axis {} where {}, which is not additive in it, reads it before it is reduced", tensor,
          s.axis(a).name, s.node(i.node).name);
    }
  return "";
}

/// The first operand that stands in the place of another one.
std::optional<size_t> displaced_operand(const Subject& s, const Instruction& i, const std::vector<Held>& operands) {
  const std::vector<NodeId>& inputs = s.node(i.node).inputs;
  for (size_t j = 0; j < operands.size(); ++j)
    if (!s.same(operands[j].node, inputs[j])) return j;
  return std::nullopt;
}

}  // namespace

std::string explain(const Subject& subject, const Instruction& instruction, const std::vector<Held>& operands,
                    const ObligationResult& result) {
  const std::string& tensor = subject.node(instruction.node).name;
  if (result.answer == smt::Answer::vacuous)
    return fmt::format("the premises of the proof for {} contradict each other", tensor);
  if (result.answer == smt::Answer::unknown) return fmt::format("the solver found no answer for {}", tensor);
  switch (result.failed) {
    case ObligationPart::bounds:
      return explain_bounds(subject, instruction, operands.at(size_t(result.operand)), result.operand);
    case ObligationPart::additive:
      return explain_additive(subject, instruction, operands, result.operand);
    default:
      if (std::optional<size_t> j = displaced_operand(subject, instruction, operands))
        return fmt::format(
            "{} takes {} as operand {}, where the program has {}, and is not the same with them exchanged", tensor,
            subject.node(operands[*j].node).name, *j, subject.node(subject.node(instruction.node).inputs[*j]).name);
      return fmt::format("the parts of {} that the devices compute are not those of the reference", tensor);
  }
}

}  // namespace hetsynth
