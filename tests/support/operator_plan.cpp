#include "tests/support/operator_plan.h"

#include <fmt/format.h>

#include "tests/support/plan_builder.h"

namespace hetsynth::test {

Program program_of(const OperatorSample& sample) {
  ProgramBuilder p;
  std::vector<std::string> inputs;
  for (const TensorType& type : sample.inputs) {
    inputs.push_back(fmt::format("in{}", inputs.size()));
    p.leaf(inputs.back(), NodeKind::input, type.shape, type.dtype);
  }
  TensorType type = sample.op->infer(sample.inputs);
  NodeId out =
      p.custom("out", inputs, sample.op->space(sample.inputs, type), sample.op->body(sample.inputs, type), type.shape);
  p.program.nodes[size_t(out)].type = type;
  p.program.outputs = {{"out", out}};
  return p.program;
}

bool can_split(const Program& program, int factor) {
  const Node& node = program.nodes.back();
  const Factor& f = node.space.factors[size_t(factor)];
  if (f.kind == FactorKind::whole) return false;
  return f.reduced() || cut_of(node.space, node.space.output, node.type.shape, factor);
}

SpmdProgram split(const Program& program, int factor, const std::vector<int64_t>& bounds) {
  const Node& node = program.nodes.back();
  PlanBuilder p(program, {{"dp", int(bounds.size()) - 1}});
  int table = p.table("shares", 0, bounds.back(), bounds);
  std::vector<ValueId> operands;
  for (size_t j = 0; j < node.inputs.size(); ++j) {
    const Node& leaf = program[node.inputs[j]];
    auto cut = cut_of(node.space, node.space.inputs[j], leaf.type.shape, factor);
    operands.push_back(p.leaf(leaf.name, {cut ? Placement::sharded(cut->dim, table) : Placement::replicated()}));
  }
  ValueId out = p.compute("out", operands, {{node.space.factors[size_t(factor)].name, table}});
  Placement placed = p.plan.values[size_t(out)].placements[0];
  if (placed.kind == Placement::Kind::partial) p.all_reduce(out, 0, placed.reduce);
  return p.plan;
}

}  // namespace hetsynth::test
