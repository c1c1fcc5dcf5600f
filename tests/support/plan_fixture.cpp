#include "tests/support/plan_fixture.h"

#include <utility>

#include "tests/support/named_operator.h"

namespace hetsynth::testing {
namespace {

Node& add(Program& program, NodeKind kind, std::string name, Shape shape) {
  Node& node = program.nodes.emplace_back();
  node.id = NodeId(program.nodes.size()) - 1;
  node.kind = kind;
  node.name = std::move(name);
  node.type = {std::move(shape), DType::f32};
  if (kind == NodeKind::operation) node.op = std::make_shared<NamedOperator>(node.name);
  return node;
}

Instruction compute(NodeId node, std::vector<ValueId> operands, ValueId result, Split split) {
  Instruction instruction;
  instruction.node = node;
  instruction.operands = std::move(operands);
  instruction.result = result;
  instruction.splits = {split};
  return instruction;
}

}  // namespace

Program plan_test_program() {
  Program program;
  program.model_file = "model.cpp";
  program.options = {{"width", "8", "columns of w"}};
  add(program, NodeKind::input, "x", {6, 4});
  add(program, NodeKind::parameter, "w", {4, 8});
  Node& y = add(program, NodeKind::operation, "y", {6, 8});
  y.inputs = {0, 1};
  const int i = y.space.add_factor("i", 6, FactorKind::parallel);
  const int j = y.space.add_factor("j", 8, FactorKind::parallel);
  const int k = y.space.add_factor("k", 4, FactorKind::sum);
  y.space.inputs = {{{index_by(i), index_by(k)}}, {{index_by(k), index_by(j)}}};
  y.space.output = {{index_by(i), index_by(j)}};
  y.body = Expr::input(0) * Expr::input(1);
  Node& loss = add(program, NodeKind::operation, "loss", {});
  loss.inputs = {2};
  const int a = loss.space.add_factor("a", 6, FactorKind::sum);
  const int b = loss.space.add_factor("b", 8, FactorKind::sum);
  loss.space.inputs = {{{index_by(a), index_by(b)}}};
  loss.body = Expr::input(0);
  Node& update = add(program, NodeKind::operation, "w2", {4, 8});
  update.inputs = {1, 1};
  const int r = update.space.add_factor("r", 4, FactorKind::parallel);
  const int c = update.space.add_factor("r", 8, FactorKind::parallel);  // the same name: plans say #0 and #1
  update.space.inputs = {{{index_by(r), index_by(c)}}, {{index_by(r), index_by(c)}}};
  update.space.output = {{index_by(r), index_by(c)}};
  update.body = Expr::input(0) + Expr::input(1);
  program.loss = 3;
  program.updates = {{1, 4}};
  return program;
}

Cluster plan_test_cluster() {
  return parse_cluster(R"(name = "pair"
[[host]]
inside = { bandwidth = "1 GB/s", latency = "10 us" }
[[host.device]]
name = "fast"
kind = "cpu"
memory = "1 GiB"
declared = { matmul = "20 GFLOP/s", memory_bandwidth = "5 GB/s" }
[[host.device]]
name = "slow"
kind = "cpu"
memory = "1 GiB"
declared = { matmul = "10 GFLOP/s", memory_bandwidth = "5 GB/s" }
)",
                       "pair.toml");
}

Plan plan_test_plan(const Program& reference) {
  Plan plan = identify_plan(reference, plan_test_cluster());
  plan.ratios = {{2.0 / 3, 1.0 / 3}};
  SpmdProgram& program = plan.program;
  program.mesh.axes = {{"dp", 2}};
  program.tables = {{"rows", 0, 6, {0, 4, 6}}, {"inner", 0, 4, {0, 0, 4}}};
  const Placement whole = Placement::replicated(), partial = Placement::partial(ReduceOp::sum);
  program.values = {{"x@S0", 0, {Placement::sharded(0, 0)}},
                    {"w@R", 1, {whole}},
                    {"y@S0", 2, {Placement::sharded(0, 0)}},
                    {"loss@P+", 3, {partial}},
                    {"loss@R", 3, {whole}},
                    {"w2@R", 4, {whole}}};
  program.leaves = {0, 1};
  Instruction reduce;
  reduce.opcode = Opcode::all_reduce;
  reduce.axis = 0;
  reduce.operands = {3};
  reduce.result = 4;
  reduce.cause = "the loss is a sum over the rows";
  program.instructions = {compute(2, {0, 1}, 2, {0, 0}), compute(3, {2}, 3, {0, 0}), reduce, compute(4, {1, 1}, 5, {})};
  program.finals = {{1, 5}};
  program.loss = 4;
  plan.prediction.step_seconds = 1.5e-3;
  plan.prediction.lower_bound_seconds = 1.4e-3;
  plan.prediction.objective_seconds = 1.6e-3;
  plan.prediction.devices = {{"fast", 0.625, 1e-3, 2e-4, 5e-5, 0, 1 << 20, 1 << 30},
                             {"slow", 0.375, 9e-4, 2e-4, 0, 1e-4, 1 << 20, 1 << 30}};
  plan.prediction.baselines = {{"even data parallel", 2e-3, true, ""}};
  return plan;
}

Plan plan_test_detour(const Program& reference) {
  Plan plan = plan_test_plan(reference);
  SpmdProgram& program = plan.program;
  program.tables.push_back({"columns", 0, 8, {0, 3, 8}});
  const Placement whole = Placement::replicated(), partial = Placement::partial(ReduceOp::sum);
  const Placement rows = Placement::sharded(0, 0), columns = Placement::sharded(1, 2);
  ValueId at = 2;  // y@S0
  std::vector<Instruction> detour;
  const auto step = [&](Opcode opcode, Placement placement) -> Instruction& {
    Instruction& instruction = detour.emplace_back();
    instruction.opcode = opcode;
    instruction.axis = 0;
    instruction.operands = {at};
    instruction.result = at = ValueId(program.values.size());
    program.values.push_back({"y" + std::to_string(at), 2, {placement}});
    return instruction;
  };
  const auto cut = [](Instruction& instruction, const Placement& p) {
    instruction.dim = p.dim, instruction.table = p.table;
  };
  cut(step(Opcode::all_gather, whole), rows);
  step(Opcode::broadcast, whole).root = 1;
  step(Opcode::to_partial, partial).root = 1;
  step(Opcode::all_reduce, whole).realisation = Realisation::grouped;
  step(Opcode::to_partial, partial);
  cut(step(Opcode::reduce_scatter, columns), columns);
  cut(step(Opcode::all_to_all, rows), columns);
  detour.back().to_dim = rows.dim, detour.back().to_table = rows.table;
  cut(step(Opcode::all_gather, whole), rows);
  cut(step(Opcode::slice, rows), rows);
  program.instructions.insert(program.instructions.begin() + 1, detour.begin(), detour.end());
  program.instructions[detour.size() + 1].operands = {at};  // the loss reads the end of the detour
  return plan;
}

Plan plan_test_halo(const Program& reference) {
  Plan plan = plan_test_plan(reference);
  const NodeId x = plan.program.values[size_t(plan.program.leaves[0])].node;
  Instruction i;
  i.opcode = Opcode::halo_exchange;
  i.operands = {plan.program.leaves[0]};
  i.axis = 0, i.dim = 0, i.table = 0, i.before = 1, i.after = 2;
  i.cause = "windows reach over the parts";
  i.result = ValueId(plan.program.values.size());
  plan.program.values.push_back({"x@wide", x, {Placement::overlapping(0, 0, 1, 2)}});
  plan.program.instructions.insert(plan.program.instructions.begin(), i);
  return plan;
}

}  // namespace hetsynth::testing
