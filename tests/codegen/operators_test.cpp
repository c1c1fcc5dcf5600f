// Every operator of the list: generated code against the float64 interpreter, whole and split by uneven, empty and
// size-1 shares.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "harness.h"

namespace hetsynth::test {
namespace {

/// One operator between input leaves and a named output.
Program program_of(const OperatorSample& sample) {
  Program p;
  p.model_file = "sample.cpp";
  Node op;
  for (const TensorType& type : sample.inputs) {
    Node leaf;
    leaf.id = int(p.nodes.size());
    leaf.kind = NodeKind::input;
    leaf.type = type;
    leaf.name = fmt::format("in{}", leaf.id);
    op.inputs.push_back(leaf.id);
    p.nodes.push_back(leaf);
  }
  op.id = int(p.nodes.size());
  op.name = "out";
  op.op = sample.op;
  op.type = sample.op->infer(sample.inputs);
  op.space = sample.op->space(sample.inputs, op.type);
  op.body = sample.op->body(sample.inputs, op.type);
  p.nodes.push_back(op);
  p.outputs = {{"out", op.id}};
  return p;
}

/// Splits factor `factor` of the only operator by `bounds`; operands the factor cuts come cut or whole. Partial results
/// are reduced.
SpmdProgram split_program(const Program& p, int factor, const std::vector<int64_t>& bounds, bool cut_operands) {
  const Node& node = p.nodes.back();
  SpmdProgram s;
  s.mesh.axes = {{"dp", int(bounds.size()) - 1}};
  s.tables = {{"shares", 0, node.space.factors[factor].size, bounds}};
  Instruction compute;
  compute.node = node.id;
  compute.splits = {{factor, 0}};
  for (const Node& leaf : p.nodes) {
    if (!leaf.leaf()) continue;
    Placement placement = Placement::replicated();
    auto cut = cut_of(node.space, node.space.inputs[leaf.id], leaf.type.shape, factor);
    if (cut && cut_operands) placement = Placement::sharded(cut->dim, 0);
    s.values.push_back({leaf.name, leaf.id, {placement}});
    s.leaves.push_back(leaf.id);
    compute.operands.push_back(leaf.id);
  }
  std::string reason;
  auto placed = infer_placements(s, p, compute, &reason);
  if (!placed) throw InternalError(reason);
  compute.result = int(s.values.size());
  s.values.push_back({"out@split", node.id, *placed});
  s.instructions = {compute};
  if ((*placed)[0].kind != Placement::Kind::partial) return s;
  Instruction reduce;
  reduce.opcode = Opcode::all_reduce;
  reduce.operands = {compute.result};
  reduce.result = int(s.values.size());
  reduce.axis = 0;
  reduce.reduce = (*placed)[0].reduce;
  s.values.push_back({"out@R", node.id, {Placement::replicated()}});
  s.instructions.push_back(reduce);
  return s;
}

double summands(const Space& space) {
  double n = 1;
  for (const Factor& f : space.factors)
    if (f.reduced()) n *= double(f.size);
  return n;
}

/// Runs the program and compares with the interpreter. The bound: each of the n summands of a result of magnitude m
/// carries a few roundings of its body (functions are within 5 ulp), and adding them at most n more: (n + 24) units of
/// roundoff of n * m.
void expect_agrees(const Program& p, const SpmdProgram& s, const OperatorSample& sample, const std::string& what) {
  SCOPED_TRACE(what + "\n" + text(s, p));
  Bindings leaves;
  EvaluationContext context{7, 3};
  GeneratedRun run(p, s);
  for (const Node& node : p.nodes) {
    if (!node.leaf()) continue;
    OperatorSample::Domain domain;
    if (size_t(node.id) < sample.domains.size()) domain = sample.domains[node.id];
    leaves[node.id] = random_array(node.type, domain.low, domain.high, uint64_t(11 + node.id));
    run.write(node.id, leaves[node.id]);
  }
  ASSERT_TRUE(run.step(context));
  Array expected = interpret(p, leaves, context).back();
  Array found = run.read(p.nodes.back().id);
  double n = summands(p.nodes.back().space), largest = 1;
  for (double v : expected.values)
    if (std::isfinite(v) && std::abs(v) < 1e8) largest = std::max(largest, std::abs(v));
  double bound = (n + 24) * 0x1p-24 * n * largest;
  for (size_t i = 0; i < expected.values.size(); ++i) {
    double allowed = std::max(bound, std::abs(expected.values[i]) * 0x1p-22);
    ASSERT_TRUE(std::abs(found.values[i] - expected.values[i]) <= allowed)
        << "element " << i << ": " << found.values[i] << " instead of " << expected.values[i] << "\n"
        << run.device(0).files[0].text;
  }
}

class OperatorCode : public testing::TestWithParam<std::string> {};

TEST_P(OperatorCode, AgreesWithTheInterpreterOnEverySlice) {
  for (const OperatorInfo& info : operator_list()) {
    if (info.name != GetParam()) continue;
    for (size_t i = 0; i < info.samples.size(); ++i) {
      const OperatorSample& sample = info.samples[i];
      Program p = program_of(sample);
      std::string what = fmt::format("{} sample {}", info.name, i);
      expect_agrees(p, whole_program(p), sample, what);
      const Space& space = p.nodes.back().space;
      for (int f = 0; f < int(space.factors.size()); ++f) {
        if (space.factors[f].kind == FactorKind::whole) continue;
        if (!space.factors[f].reduced() && !cut_of(space, space.output, p.nodes.back().type.shape, f)) continue;
        // Nothing, a single index and the rest; then two uneven shares of operands that are whole everywhere.
        int64_t size = space.factors[f].size;
        what = fmt::format("{} sample {}, factor {} split", info.name, i, space.factors[f].name);
        expect_agrees(p, split_program(p, f, {0, 0, 1, size}, true), sample, what);
        expect_agrees(p, split_program(p, f, {0, size / 3, size}, false), sample, what + ", operands whole");
      }
    }
  }
}

std::vector<std::string> names_with_samples() {
  std::vector<std::string> names;
  for (const OperatorInfo& info : operator_list())
    if (!info.samples.empty()) names.push_back(info.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, OperatorCode, testing::ValuesIn(names_with_samples()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace hetsynth::test
