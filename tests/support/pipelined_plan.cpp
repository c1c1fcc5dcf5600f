#include "tests/support/pipelined_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace hetsynth::test {
namespace {

/// Axes behind a new first one.
Placements behind(const Placement& first, const Placements& placements) {
  Placements out{first};
  out.insert(out.end(), placements.begin(), placements.end());
  return out;
}

class Pipelining {
 public:
  Pipelining(const Program& reference, const SpmdProgram& plan, int stages, const std::vector<int>& stage_of)
      : r_(reference), from_(plan), stage_of_(stage_of), made_(plan.values.size()) {
    out_.mesh.axes = {{"pp", stages}};
    out_.mesh.axes.insert(out_.mesh.axes.end(), plan.mesh.axes.begin(), plan.mesh.axes.end());
    out_.tables = plan.tables;
    for (BoundaryTable& table : out_.tables) {
      ++table.axis;
      if (table.by >= 0) ++table.by;
    }
  }

  SpmdProgram run() {
    for (ValueId leaf : from_.leaves) {
      const int stage = stage_of_[size_t(from_.values[size_t(leaf)].node)];
      out_.leaves.push_back(add(leaf, stage < 0 ? Placement::replicated() : Placement::stage(stage)));
    }
    const std::vector<LoopSpan> spans = loop_spans(r_, from_);
    for (int n = 0; n < int(from_.instructions.size()); ++n) {
      for (const LoopSpan& span : spans)
        if (span.first == n) bring_before(span);
      const Instruction& i = from_.instructions[size_t(n)];
      i.opcode == Opcode::compute ? compute(i) : move(i);
    }
    for (auto [carry, value] : from_.carried)
      out_.carried.push_back({carry, on_stage(value, stage_of_[size_t(carry)])});
    for (auto [target, value] : from_.finals)
      out_.finals.push_back({target, on_stage(value, stage_of_[size_t(target)])});
    if (from_.loss >= 0) out_.loss = broadcast(from_.loss);
    return std::move(out_);
  }

 private:
  /// The new value that stands where an old one is made.
  ValueId add(ValueId old, Placement stage) {
    Value value = from_.values[size_t(old)];
    value.placements = behind(stage, value.placements);
    out_.values.push_back(std::move(value));
    made_[size_t(old)][stage.kind == Placement::Kind::stage ? stage.at : -1] = ValueId(out_.values.size()) - 1;
    first_.emplace(old, ValueId(out_.values.size()) - 1);
    return ValueId(out_.values.size()) - 1;
  }

  const Placement& stage_of_value(ValueId v) const { return out_.values[size_t(v)].placements[0]; }

  /// The value as a stage has it, sent there if it lies on another one.
  ValueId on_stage(ValueId old, int stage) {
    std::map<int, ValueId>& forms = made_[size_t(old)];
    if (auto all = forms.find(-1); all != forms.end()) return all->second;
    if (auto there = forms.find(stage); there != forms.end()) return there->second;
    const ValueId from = first_.at(old);
    Instruction send;
    send.opcode = Opcode::send;
    send.operands = {from};
    send.axis = 0;
    send.root = stage_of_value(from).at;
    send.to = stage;
    send.cause = "the next stage reads it";
    send.result = add(old, Placement::stage(stage));
    out_.values.back().name += fmt::format("@stage{}", stage);
    out_.instructions.push_back(send);
    return send.result;
  }

  /// What a loop reads of elsewhere is sent once, and not in its turns.
  void bring_before(const LoopSpan& span) {
    for (int n = span.first; n < span.last; ++n) {
      const Instruction& i = from_.instructions[size_t(n)];
      for (ValueId operand : i.operands)
        if (i.opcode == Opcode::compute && first_.count(operand)) on_stage(operand, stage_of_[size_t(i.node)]);
    }
  }

  ValueId broadcast(ValueId old) {
    const ValueId from = first_.at(old);
    if (stage_of_value(from).kind != Placement::Kind::stage) return from;
    Instruction i;
    i.opcode = Opcode::broadcast;
    i.operands = {from};
    i.axis = 0;
    i.root = stage_of_value(from).at;
    i.cause = "every stage reports the loss";
    i.result = add(old, Placement::replicated());
    out_.values.back().name += "@all";
    out_.instructions.push_back(i);
    return i.result;
  }

  void compute(Instruction i) {
    const int stage = std::max(stage_of_[size_t(i.node)], 0);
    i.splits.insert(i.splits.begin(), Split::on_stage(stage));
    for (ValueId& operand : i.operands) operand = on_stage(operand, stage);
    i.result = add(i.result, Placement::stage(stage));
    out_.instructions.push_back(std::move(i));
  }

  void move(Instruction i) {
    ++i.axis;
    i.operands = {first_.at(i.operands[0])};
    i.result = add(i.result, stage_of_value(i.operands[0]));
    out_.instructions.push_back(std::move(i));
  }

  const Program& r_;
  const SpmdProgram& from_;
  const std::vector<int>& stage_of_;
  SpmdProgram out_;
  std::vector<std::map<int, ValueId>> made_;  ///< by old value: its forms, by stage; -1: on all
  std::map<ValueId, ValueId> first_;          ///< by old value: the form that was made first
};

}  // namespace

std::vector<int> stages_of(const Program& reference, int stages) {
  std::vector<int> out(reference.nodes.size(), -2);
  std::map<int, int> stage_of_loop;  // all of a loop runs where it begins
  int64_t total = 0, before = 0;
  for (const Node& node : reference.nodes)
    if (node.kind == NodeKind::parameter) total += element_count(node.type.shape);
  for (const Node& node : reference.nodes) {
    if (node.kind == NodeKind::input) out[size_t(node.id)] = -1;
    if (node.leaf()) continue;
    const bool forward = node.phase == Phase::forward;
    for (NodeId input : node.inputs) {
      if (out[size_t(input)] != -2 || reference[input].kind != NodeKind::parameter) continue;
      out[size_t(input)] = int(std::min<int64_t>(stages - 1, before * stages / std::max<int64_t>(total, 1)));
      before += element_count(reference[input].type.shape);
    }
    int stage = -1;
    for (NodeId input : node.inputs)
      if (int at = out[size_t(input)]; at >= 0)
        stage = stage < 0 ? at : forward ? std::max(stage, at) : std::min(stage, at);
    out[size_t(node.id)] = std::max(stage, 0);
    if (node.loop >= 0) out[size_t(node.id)] = stage_of_loop.try_emplace(node.loop, out[size_t(node.id)]).first->second;
    for (NodeId input : node.inputs)  // states, where their parameter is
      if (out[size_t(input)] == -2) out[size_t(input)] = out[size_t(node.id)];
  }
  for (const Node& node : reference.nodes)
    if (out[size_t(node.id)] == -2) out[size_t(node.id)] = 0;  // nobody reads it
  return out;
}

SpmdProgram pipelined_plan(const Program& reference, const SpmdProgram& plan, int stages,
                           const std::vector<int>& stage_of) {
  return Pipelining(reference, plan, stages, stage_of).run();
}

SpmdProgram pipelined_plan(const Program& reference, const SpmdProgram& plan, int stages) {
  return pipelined_plan(reference, plan, stages, stages_of(reference, stages));
}

}  // namespace hetsynth::test
