#include "verify/rules/summands.h"

#include <fmt/format.h>

#include <algorithm>

#include "dsl/spmd/nested_cut.h"

namespace hetsynth {
namespace {

std::set<int> open_axes(const Held& operand) {
  std::set<int> open;
  for (size_t a = 0; a < operand.placements.size(); ++a)
    if (operand.placements[a].kind == Placement::Kind::partial) open.insert(int(a));
  return open;
}

/// The axis among `open` whose coordinate decides who owns a point along axis q; -1 if there is none. A table varies
/// along an axis that may divide the reduction by a table that varies in turn. The chain ends: circular() sees to it,
/// and `steps` where that premise is left out.
int owner_depends_on(int q, const std::set<int>& open, const DividedReduction& reduction) {
  for (size_t steps = 0; reduction.count(q) && steps <= reduction.size(); ++steps) q = reduction.at(q);
  return open.count(q) ? q : -1;
}

}  // namespace

DividedReduction divided_reduction(const Subject& subject, const Instruction& instruction) {
  DividedReduction out;
  const Space& space = subject.node(instruction.node).space;
  for (int a = 0; a < subject.axis_count(); ++a) {
    const Split& split = instruction.splits[size_t(a)];
    if (split.factor >= 0 && !subject.trivial(a) && space.factors[size_t(split.factor)].reduced())
      out[a] = varies_along(subject.program.tables.at(size_t(split.table)));
  }
  return out;
}

std::set<int> varying_summands(const std::vector<Held>& operands, const DividedReduction& reduction) {
  std::set<int> out;
  for (const Held& operand : operands) out.insert(operand.varying.begin(), operand.varying.end());
  for (const auto& [axis, by] : reduction)
    if (by >= 0) out.insert(by);
  return out;
}

std::string summands_that_differ(const Subject& subject, const std::vector<Held>& operands) {
  std::vector<std::set<int>> open;  // by operand: axes over which it is still to be summed
  std::set<int> left;
  for (const Held& operand : operands) {
    open.push_back(open_axes(operand));
    left.insert(open.back().begin(), open.back().end());
  }
  std::string why;
  const auto can_be_summed = [&](int axis) {
    for (size_t j = 0; j < operands.size(); ++j)
      if (!open[j].empty() && !open[j].count(axis) && operands[j].varying.count(axis)) {
        why = fmt::format("an operand is partial over axis {}, along which the summands of {} differ",
                          subject.axis(axis).name, subject.node(operands[j].node).name);
        return false;
      }
    return true;
  };
  while (!left.empty()) {
    const auto next = std::ranges::find_if(left, can_be_summed);
    if (next == left.end()) return why;
    for (std::set<int>& axes : open) axes.erase(*next);
    left.erase(next);
  }
  return "";
}

std::string points_of_several_owners(const Subject& subject, const std::vector<Held>& operands,
                                     const DividedReduction& reduction) {
  std::set<int> open;
  for (const Held& operand : operands) open.merge(open_axes(operand));
  for (const auto& [axis, by] : reduction)
    for (const Held& operand : operands)
      if (const int on = owner_depends_on(axis, open, reduction); on >= 0 && operand.varying.count(axis))
        return fmt::format(
            "the summands of {} differ along axis {}, which divides the reduction differently along axis {}",
            subject.node(operand.node).name, subject.axis(axis).name, subject.axis(on).name);
  return "";
}

}  // namespace hetsynth
