#include "dsl/spmd/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "dsl/base/file.h"
#include "dsl/base/json_tree.h"
#include "dsl/base/output_file.h"
#include "dsl/base/suggest.h"
#include "dsl/spmd/plan_text.h"

namespace hetsynth {

const Trial* Prediction::taken() const {
  const auto own = std::ranges::find(considered, "taken", &Trial::outcome);
  return own == considered.end() ? nullptr : &*own;
}

SpmdProgram canonical(const SpmdProgram& program) {
  SpmdProgram result;
  result.mesh = program.mesh;
  result.tables = program.tables;
  result.hosts = program.hosts;
  std::vector<ValueId> renamed(program.values.size(), -1);
  const auto define = [&](ValueId id) {
    HETSYNTH_CHECK(renamed.at(id) < 0, "value " + program.values[id].name + " is defined once");
    renamed[id] = ValueId(result.values.size());
    result.values.push_back(program.values[id]);
    return renamed[id];
  };
  const auto use = [&](ValueId id) {
    HETSYNTH_CHECK(renamed.at(id) >= 0, "value " + program.values[id].name + " is defined before its use");
    return renamed[id];
  };
  for (ValueId leaf : program.leaves) result.leaves.push_back(define(leaf));
  for (const Instruction& from : program.instructions) {
    const OpcodeFields fields = fields_of(from.opcode);
    Instruction to;
    to.opcode = from.opcode;
    for (ValueId operand : from.operands) to.operands.push_back(use(operand));
    to.result = define(from.result);
    if (from.opcode == Opcode::compute) to.node = from.node, to.splits = from.splits;
    if (fields.axis) to.axis = from.axis;
    if (fields.cut) to.dim = from.dim, to.table = from.table;
    if (fields.to_cut) to.to_dim = from.to_dim, to.to_table = from.to_table;
    if (fields.reduce) to.reduce = from.reduce;
    if (fields.realisation) to.realisation = from.realisation;
    if (fields.root) to.root = from.root;
    if (fields.to) to.to = from.to;
    if (fields.halo) to.before = from.before, to.after = from.after;
    if (communicates(from.opcode)) to.bucket = from.bucket;
    to.cause = from.cause;
    result.instructions.push_back(std::move(to));
  }
  for (const auto& [target, value] : program.finals) result.finals.emplace_back(target, use(value));
  for (const auto& [carry, value] : program.carried) result.carried.emplace_back(carry, use(value));
  if (program.loss >= 0) result.loss = use(program.loss);
  result.schedules = program.schedules;
  return result;
}

Plan load_plan(const std::string& path, const Program& reference) {
  return plan_from_json(read_file(path, "plan file", JsonLimits{}.bytes), path, reference);
}

const OutputKind plan_file_kind{"plan file",
                                begins_with("{", {"\"tool\":", "\"model\":", "\"cluster\":", "\"devices\":"})};

void save_plan(const std::string& path, const Plan& plan, const Program& reference) {
  write_output(path, plan_file_kind, plan_to_json(plan, reference));
}

void check_plan_cluster(const Plan& plan, const Cluster& cluster) {
  const std::string hash = hash_text(cluster);
  // A plan may leave devices out, but not name others.
  const bool known = std::ranges::all_of(plan.devices, [&](const PlanDevice& wanted) {
    return std::ranges::find(cluster.devices, wanted.name, &Device::name) != cluster.devices.end();
  });
  if (plan.cluster_hash == hash && known) return;
  Diagnostic diagnostic;
  diagnostic.where.file = cluster.file;
  diagnostic.tag = "plan";
  diagnostic.message = "the plan was made for another cluster";
  diagnostic.expected =
      fmt::format("{}, {} devices, hash {}", quote(plan.cluster_name), plan.devices.size(), plan.cluster_hash);
  diagnostic.found = fmt::format("{}, {} devices, hash {}", quote(cluster.name), cluster.devices.size(), hash);
  diagnostic.mend = "plan again with `hetsynth plan`, or name the cluster file that the plan was made for";
  throw UserError(std::move(diagnostic));
}

}  // namespace hetsynth
