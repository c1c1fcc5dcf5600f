#include "synth/stages/cut_points.h"

#include <algorithm>
#include <optional>

namespace hetsynth::synth {
namespace {

/// A parameter of so many elements is worth a place on one stage alone, in place of a transfer of its gradient.
constexpr int64_t many_elements = 1 << 16;

/// What crosses each position on a device, on the way forward (made before, read at it or behind) and back.
struct Crossing {
  std::vector<double> forward, back;
};

/// What is converted late is converted where it is read. Gradients of shared parameters go from end to end at once.
Crossing crossing_bytes(const Program& in_turns, const SpmdProgram& group, const Pricer& pricer,
                        const StagePositions& positions) {
  struct Way {
    bool made = false;                ///< in the loop, at some position
    size_t from = 0;                  ///< where it is made
    std::optional<size_t> near, far;  ///< where it is read first and last on that way
  };
  const auto node_of = [&](ValueId value) { return size_t(group.values[size_t(value)].node); };
  const auto position = [&](ValueId value) { return size_t(std::max(0, positions.of[node_of(value)])); };
  const auto back = [&](ValueId value) { return positions.again[node_of(value)] != 0; };
  std::vector<Way> ways(group.values.size());
  for (size_t i = group.instructions.size(); i-- > 0;) {  // readers before what they read
    const Instruction& instruction = group.instructions[i];
    if (loop_of(in_turns, group, instruction) != positions.loop) continue;
    const ValueId result = instruction.result;
    Way& way = ways[size_t(result)];
    way.made = positions.of[node_of(result)] >= 0;
    way.from = converts_late(instruction.opcode) && way.near ? *way.near : position(result);
    for (const ValueId operand : instruction.operands) {
      if (back(operand) != back(result)) continue;  // where the way back reads of the way forth, it lies beside it
      Way& of = ways[size_t(operand)];
      const auto [low, high] = std::minmax({way.from, of.near.value_or(way.from), of.far.value_or(way.from)});
      of.near = back(operand) ? high : low;
      of.far = back(operand) ? low : high;
    }
  }
  const std::set<NodeId> shared = shared_parameters(in_turns, positions).nodes;
  const auto count = size_t(positions.count) + 1;
  Crossing out{std::vector<double>(count, 0), std::vector<double>(count, 0)};
  for (size_t v = 0; v < ways.size(); ++v) {
    const Way& way = ways[v];
    if (!way.made || !way.far || shared.contains(positions.home[node_of(ValueId(v))])) continue;
    const double bytes = std::ranges::max(pricer.held_bytes(ValueId(v)));
    for (size_t at = way.from + 1; at <= *way.far; ++at) out.forward[at] += bytes;
    for (size_t at = *way.far + 1; back(ValueId(v)) && at <= way.from; ++at) out.back[at] += bytes;
  }
  return out;
}

/// The first position of what is read at a position, and made in the loop.
int operands_position(const Program& in_turns, const StagePositions& positions, int at) {
  int first = at;
  for (const Node& node : in_turns.nodes) {
    if (positions.of[size_t(node.id)] != at || positions.again[size_t(node.id)] || node.loop != positions.loop)
      continue;
    for (const NodeId input : node.inputs)
      if (in_turns[input].loop == positions.loop && positions.of[size_t(input)] >= 0)
        first = std::min(first, positions.of[size_t(input)]);
  }
  return first;
}

}  // namespace

CutPoints cut_points(const Program& in_turns, const SpmdProgram& group, const Pricer& pricer,
                     const StagePositions& positions) {
  const auto [crossing, crossing_back] = crossing_bytes(in_turns, group, pricer, positions);
  const auto count = size_t(positions.count);
  CutPoints out;
  for (size_t at = 1; at < count; ++at) {
    if (positions.whole[at] || crossing[at] > crossing[at - 1]) continue;
    if (at + 1 < count && crossing[at] > crossing[at + 1]) continue;
    out.at.push_back(int(at));
    out.bytes.push_back(crossing[at]);
    out.bytes_back.push_back(crossing_back[at]);
  }
  return out;
}

SharedParameters shared_parameters(const Program& in_turns, const StagePositions& positions) {
  SharedParameters out;
  for (const Node& node : in_turns.nodes) {
    if (node.kind != NodeKind::parameter || element_count(node.type.shape) < many_elements) continue;
    const int first = positions.of[size_t(node.id)], last = positions.last[size_t(node.id)];
    if (first >= positions.count / 2 || last <= positions.count / 2) continue;
    if (last > out.again) out.again = last, out.with = operands_position(in_turns, positions, last);
    out.nodes.insert(node.id);
    out.bytes += double(element_count(node.type.shape) * size_bytes(node.type.dtype));
  }
  return out;
}

}  // namespace hetsynth::synth
