#include "synth/schedule/attention_runs.h"

#include <algorithm>

namespace hetsynth::synth {
namespace {

/// A value that blocks read in the forward pass.
struct Read {
  int run;
  NodeId node;
  ValueId latest;  ///< of the same tensor in the same place
};

/// Whether an operator that reads blocks runs over all that a device has of them: not of what is whole on every device
/// over a part, as is right for it alone.
bool runs_over(const AttentionCost& known, const Placements& blocks, const Instruction& reader) {
  for (size_t axis = 0; axis < blocks.size(); ++axis) {
    const int factor = reader.splits[axis].factor;
    if (blocks[axis].kind == Placement::Kind::replicated && factor >= 0 && known.splits_blocks(reader.node, factor))
      return false;
  }
  return true;
}

}  // namespace

AttentionRuns::AttentionRuns(const CostModel& cost, const SpmdProgram& spmd) : cost_(cost) {
  const std::vector<Attention>& all = cost.attention().found();
  const std::vector<char> whole = in_one_piece(spmd);
  run_of_.assign(all.size(), -1);
  for (size_t a = 0; a < all.size(); ++a) {
    if (!whole[a]) continue;
    run_of_[a] = int(runs_.size());
    runs_.push_back({&all[a]});
  }
  if (!runs_.empty()) find_instructions(spmd);
}

int AttentionRuns::run(NodeId node) const {
  const int attention = cost_.attention().attention(node);
  return attention < 0 ? -1 : run_of_[size_t(attention)];
}

bool AttentionRuns::taken_apart(NodeId node) const { return cost_.in_blocks(node) && run(node) < 0; }

/// By attention of the program.
std::vector<char> AttentionRuns::in_one_piece(const SpmdProgram& spmd) const {
  const AttentionCost& known = cost_.attention();
  const std::vector<Attention>& all = known.found();
  std::vector<char> whole(all.size(), 0);
  std::vector<const Placements*> common(all.size(), nullptr);
  for (size_t a = 0; a < all.size(); ++a) whole[a] = cost_.in_blocks(all[a].scores);
  std::vector<int> times(known.node_count(), 0);
  for (const Value& value : spmd.values) {
    const AttentionPart part = known.part(value.node);
    if (part != AttentionPart::forward_block && part != AttentionPart::gradient_block) continue;
    const auto a = size_t(known.attention(value.node));
    ++times[size_t(value.node)];
    if (!common[a]) common[a] = &value.placements;
    whole[a] &= *common[a] == value.placements;
    for (const Placement& p : value.placements)
      whole[a] &= p.kind != Placement::Kind::partial && !(p.kind == Placement::Kind::sharded && p.dim == all[a].column);
  }
  for (const Instruction& instruction : spmd.instructions) {
    if (instruction.opcode != Opcode::compute) continue;
    const AttentionPart part = known.part(instruction.node);
    if (part == AttentionPart::statistic || part == AttentionPart::mixed)
      ++times[size_t(instruction.node)];
    else if (part != AttentionPart::product)
      continue;
    const auto a = size_t(known.attention(instruction.node));
    whole[a] &= common[a] && runs_over(known, *common[a], instruction);
  }
  for (size_t a = 0; a < all.size(); ++a) {
    const int forward = times[size_t(all[a].scores)];
    whole[a] &= forward == 1 || forward == 2;
    for (NodeId node : all[a].hidden())
      whole[a] &= times[size_t(node)] == (known.part(node) == AttentionPart::forward_block ? forward : 1);
    for (NodeId node : {all[a].maximum, all[a].total, all[a].mixed}) whole[a] &= times[size_t(node)] == forward;
  }
  return whole;
}

void AttentionRuns::find_instructions(const SpmdProgram& spmd) {
  std::vector<Read> reads;
  std::vector<std::vector<int>> reads_of(cost_.attention().node_count());  // by node
  const auto note = [&](int run, ValueId value) {
    const Value& read = spmd.values[size_t(value)];
    for (int known : reads_of[size_t(read.node)])
      if (reads[size_t(known)].run == run &&
          spmd.values[size_t(reads[size_t(known)].latest)].placements == read.placements)
        return;
    reads_of[size_t(read.node)].push_back(int(reads.size()));
    reads.push_back({run, read.node, value});
  };
  for (int i = 0; i < int(spmd.instructions.size()); ++i) {
    const Instruction& instruction = spmd.instructions[size_t(i)];
    const Value& result = spmd.values[size_t(instruction.result)];
    for (int read : reads_of[size_t(result.node)])
      if (spmd.values[size_t(reads[size_t(read)].latest)].placements == result.placements)
        reads[size_t(read)].latest = instruction.result;
    const int at = run(result.node);
    if (at < 0 || instruction.opcode != Opcode::compute) continue;
    AttentionRun& run = runs_[size_t(at)];
    switch (cost_.attention().part(result.node)) {
      case AttentionPart::forward_block:
        for (ValueId operand : instruction.operands)
          if (part(spmd.values[size_t(operand)].node) != AttentionPart::forward_block) note(at, operand);
        if (!cost_.stored_for_gradient(result.node)) break;
        std::erase_if(run.stored, [&](ValueId value) { return spmd.values[size_t(value)].node == result.node; });
        run.stored.push_back(instruction.result);
        break;
      case AttentionPart::mixed:
        run.mixed.push_back(i);
        note(at, instruction.result);
        break;
      case AttentionPart::gradient_block:
      case AttentionPart::product:
        run.last = i;
        if (run.first >= 0) break;
        run.first = i;
        for (const Read& read : reads)
          if (read.run == at) run.again.push_back(read.latest);
        break;
      case AttentionPart::statistic:
      case AttentionPart::none:
        break;
    }
  }
}

}  // namespace hetsynth::synth
