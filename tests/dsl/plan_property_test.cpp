// Random well-formed plans, meaningful or not, come back from their file as they were.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "dsl/spmd/hosts.h"
#include "dsl/spmd/plan.h"
#include "tests/support/plan_fixture.h"

namespace hetsynth {
namespace {

/// Draws plans for the fixture's program; names carry characters that need quoting.
class PlanGenerator {
 public:
  explicit PlanGenerator(const Program& reference) : reference_(reference) {}

  Plan draw() {
    plan_ = testing::plan_test_plan(reference_);
    SpmdProgram& program = plan_.program = {};
    const int axes = pick(1, 2);
    for (int a = 0; a < axes; ++a) program.mesh.axes.push_back({a ? "t \"p\"" : "dp", pick(1, 3)});
    for (int rank = 0; rank < program.mesh.device_count(); ++rank)
      program.hosts.push_back(rank ? program.hosts.back() + pick(0, 1) : 0);
    plan_.devices.clear();
    for (int rank = 0; rank < program.mesh.device_count(); ++rank)
      plan_.devices.push_back({"d" + std::to_string(rank), DeviceKind::cpu, "m\u00e9", ""});
    plan_.ratios.clear();
    plan_.prediction.devices.clear();
    for (int a = 0; a < axes; ++a)
      for (int64_t extent : {1, 2, 3, 4, 6, 8}) add_table(a, extent);
    for (const Node& node : reference_.nodes)
      if (node.leaf()) program.leaves.push_back(define(node.id));
    const int count = pick(1, 12);
    for (int i = 0; i < count; ++i) add_instruction();
    program.finals = {{1, any_value()}};
    program.loss = any_value();
    if (hierarchical_axes(program).empty()) program.hosts.clear();
    return plan_;
  }

 private:
  static int pick(int low, int high) { return *rc::gen::inRange(low, high + 1); }
  ValueId any_value() { return pick(0, int(plan_.program.values.size()) - 1); }

  void add_table(int axis, int64_t extent) {
    BoundaryTable table{"t" + std::to_string(plan_.program.tables.size()) + (axis ? ", (" : ""), axis, extent};
    table.bounds = bounds(axis, extent);
    const int other = 1 - axis;
    if (other < int(plan_.program.mesh.axes.size()) && pick(0, 2) == 0) {
      table.by = other;
      table.bounds.clear();
      for (int row = 0; row < plan_.program.mesh.axes[other].size; ++row) table.rows.push_back(bounds(axis, extent));
    }
    plan_.program.tables.push_back(std::move(table));
  }

  std::vector<int64_t> bounds(int axis, int64_t extent) const {
    std::vector<int64_t> out{0};
    for (int i = 1; i < plan_.program.mesh.axes[axis].size; ++i) out.push_back(pick(int(out.back()), int(extent)));
    out.push_back(extent);
    return out;
  }

  int stage(int axis) const { return pick(0, plan_.program.mesh.axes[axis].size - 1); }

  /// There always is one: each axis has a table of extent 1.
  int table_for(int axis, int64_t extent) {
    std::vector<int> fitting;
    for (int t = 0; t < int(plan_.program.tables.size()); ++t)
      if (plan_.program.tables[t].axis == axis && extent % plan_.program.tables[t].extent == 0) fitting.push_back(t);
    return fitting[pick(0, int(fitting.size()) - 1)];
  }

  Placements placements(const Shape& shape) {
    Placements result;
    for (int a = 0; a < int(plan_.program.mesh.axes.size()); ++a) {
      // Axis a may cut dimension a, so that no dimension is cut twice.
      const int kind = pick(0, int(shape.size()) > a ? 3 : 2);
      result.push_back(kind == 0   ? Placement::replicated()
                       : kind == 1 ? Placement::partial(ReduceOp(pick(0, 4)))
                       : kind == 2 ? Placement::stage(stage(a))
                                   : Placement::sharded(a, table_for(a, shape[a])));
      Placement& drawn = result.back();
      if (drawn.kind != Placement::Kind::sharded || plan_.program.tables[size_t(drawn.table)].by >= 0) continue;
      drawn.before = pick(0, 2) ? 0 : pick(0, int(shape[size_t(a)]));
      drawn.after = pick(0, 2) ? 0 : pick(0, int(shape[size_t(a)]));
    }
    return result;
  }

  ValueId define(NodeId node) {
    const ValueId id = ValueId(plan_.program.values.size());
    plan_.program.values.push_back({"v\"" + std::to_string(id), node, placements(reference_[node].type.shape)});
    return id;
  }

  void add_instruction() {
    Instruction instruction;
    instruction.opcode = Opcode(pick(0, int(Opcode::halo_exchange)));
    if (instruction.opcode == Opcode::compute) {
      instruction.node = pick(2, 4);
      const Node& node = reference_[instruction.node];
      for (size_t i = 0; i < node.inputs.size(); ++i) instruction.operands.push_back(any_value());
      for (int a = 0; a < int(plan_.program.mesh.axes.size()); ++a) {
        const bool split = pick(0, 1) && a < int(node.space.factors.size());
        instruction.splits.push_back(split        ? Split{a, table_for(a, node.space.factors[a].size)}
                                     : pick(0, 1) ? Split::on_stage(stage(a))
                                                  : Split{});
      }
      instruction.result = define(pick(0, 3) ? instruction.node : pick(0, 4));
    } else {
      instruction.operands = {any_value()};
      fill_collective(instruction);
    }
    if (pick(0, 1)) instruction.cause = "why \"not\"";
    plan_.program.instructions.push_back(std::move(instruction));
  }

  void fill_collective(Instruction& instruction) {
    const NodeId node = plan_.program.values[instruction.operands[0]].node;
    const Shape& shape = reference_[node].type.shape;
    const bool cuts = instruction.opcode == Opcode::slice || instruction.opcode == Opcode::all_gather ||
                      instruction.opcode == Opcode::reduce_scatter || instruction.opcode == Opcode::all_to_all ||
                      instruction.opcode == Opcode::halo_exchange;
    if (cuts && shape.empty()) instruction.opcode = Opcode::all_reduce;
    if (instruction.opcode == Opcode::all_to_all && shape.size() < 2) instruction.opcode = Opcode::all_gather;
    instruction.axis = pick(0, int(plan_.program.mesh.axes.size()) - 1);
    if (cuts && !shape.empty()) {
      instruction.dim = pick(0, int(shape.size()) - 1);
      instruction.table = table_for(instruction.axis, shape[instruction.dim]);
    }
    if (instruction.opcode == Opcode::all_to_all) {
      instruction.to_dim = (instruction.dim + pick(1, int(shape.size()) - 1)) % int(shape.size());
      instruction.to_table = table_for(instruction.axis, shape[instruction.to_dim]);
    }
    if (instruction.opcode == Opcode::all_reduce || instruction.opcode == Opcode::reduce_scatter)
      instruction.reduce = ReduceOp(pick(0, 4));
    if (instruction.opcode == Opcode::halo_exchange) {
      instruction.before = pick(0, int(shape[size_t(instruction.dim)]));
      instruction.after = pick(instruction.before == 0, int(shape[size_t(instruction.dim)]));
    }
    const bool sends = instruction.opcode == Opcode::send;
    if (instruction.opcode == Opcode::to_partial || instruction.opcode == Opcode::broadcast || sends)
      instruction.root = stage(instruction.axis);
    if (sends) instruction.to = stage(instruction.axis);
    if (instruction.opcode != Opcode::slice && instruction.opcode != Opcode::to_partial && !sends &&
        instruction.opcode != Opcode::halo_exchange) {
      instruction.realisation = Realisation(pick(0, 3));
      if (instruction.realisation == Realisation::hierarchical &&
          !why_not_hierarchical(plan_.program, instruction).empty())
        instruction.realisation = Realisation::native;
    }
    instruction.result = define(pick(0, 3) ? node : pick(0, 4));
  }

  const Program& reference_;
  Plan plan_;
};

RC_GTEST_PROP(PlanProperty, RoundTripIsExact, ()) {
  const Program reference = testing::plan_test_program();
  const Plan plan = PlanGenerator(reference).draw();
  const std::string json = plan_to_json(plan, reference);
  const Plan again = plan_from_json(json, "p.json", reference);
  RC_ASSERT(again.program == plan.program);
  RC_ASSERT(plan_to_json(again, reference) == json);
}

RC_GTEST_PROP(PlanProperty, NumbersComeBackExactly, (double a, double b)) {
  const Program reference = testing::plan_test_program();
  Plan plan = testing::plan_test_plan(reference);
  RC_PRE(std::isfinite(a) && std::isfinite(b));
  plan.prediction.step_seconds = std::min(std::abs(a), 1e18);
  plan.prediction.devices[0].compute_seconds = std::min(std::abs(b), 1e18);
  const Plan again = plan_from_json(plan_to_json(plan, reference), "p.json", reference);
  RC_ASSERT(again.prediction.step_seconds == plan.prediction.step_seconds);
  RC_ASSERT(again.prediction.devices[0].compute_seconds == plan.prediction.devices[0].compute_seconds);
}

}  // namespace
}  // namespace hetsynth
