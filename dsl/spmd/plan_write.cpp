// A plan as JSON: laid out for people, one table, leaf, instruction or prediction per line.
#include <fmt/format.h>

#include <cmath>

#include "dsl/base/json_tree.h"
#include "dsl/spmd/plan.h"
#include "dsl/spmd/plan_text.h"

namespace hetsynth {
namespace {

/// JSON has no infinity: null stands for it. A negative zero would read back as the integer 0: it is written as 0.
std::string number(double value) {
  HETSYNTH_CHECK(!std::isnan(value), "a plan holds no NaN");
  return std::isfinite(value) ? fmt::format("{}", value + 0.0) : "null";
}

template <typename Range, typename ToJson>
std::string array(const Range& range, ToJson to_json) {
  std::string text = "[";
  for (const auto& element : range) text += (text.size() > 1 ? ", " : "") + to_json(element);
  return text + "]";
}

/// An object on one line.
class Line {
 public:
  Line& raw(std::string_view key, const std::string& json) {
    text_ += (text_.empty() ? "" : ", ") + json_quoted(key) + ": " + json;
    return *this;
  }
  Line& string(std::string_view key, std::string_view value) { return raw(key, json_quoted(value)); }
  Line& integer(std::string_view key, int64_t value) { return raw(key, fmt::format("{}", value)); }
  std::string json() const { return "{" + text_ + "}"; }

 private:
  std::string text_;
};

/// An array with one element per line.
template <typename Range, typename ToJson>
std::string lines(const Range& range, const std::string& indent, ToJson to_json) {
  std::string text;
  for (const auto& element : range) text += (text.empty() ? "\n" : ",\n") + indent + "  " + to_json(element);
  return text.empty() ? "[]" : "[" + text + "\n" + indent + "]";
}

class Writer {
 public:
  Writer(const SpmdProgram& program, const Program& reference)
      : program_(program), reference_(reference), names_(reference) {}

  std::string table(const BoundaryTable& table) const {
    const auto bounds = [](const std::vector<int64_t>& row) {
      return array(row, [](int64_t bound) { return fmt::format("{}", bound); });
    };
    Line line;
    line.string("name", table.name).string("axis", axis(table.axis));
    if (table.by >= 0) line.string("by", axis(table.by));
    line.integer("extent", table.extent);
    return line.raw("bounds", table.by < 0 ? bounds(table.bounds) : array(table.rows, bounds)).json();
  }

  std::string leaf(ValueId id) const {
    const Value& value = program_.values.at(id);
    return Line()
        .string("value", value.name)
        .string("node", names_.name(value.node))
        .raw("placement", placements(value.placements))
        .json();
  }

  std::string instruction(const Instruction& instruction) const {
    const Value& result = program_.values.at(instruction.result);
    Line line;
    line.string("op", name(instruction.opcode)).string("result", result.name);
    NodeId implied = -1;
    if (instruction.opcode == Opcode::compute) {
      implied = instruction.node;
      line.string("node", names_.name(instruction.node)).raw("split", splits(instruction));
    } else {
      implied = program_.values.at(instruction.operands.at(0)).node;
      collective(instruction, line);
    }
    line.raw("from", array(instruction.operands, [&](ValueId id) { return json_quoted(program_.values.at(id).name); }));
    line.raw("placement", placements(result.placements));
    if (result.node != implied) line.string("of", names_.name(result.node));
    if (!instruction.cause.empty()) line.string("cause", instruction.cause);
    return line.json();
  }

  std::string carried(const std::pair<NodeId, ValueId>& carried) const {
    return Line()
        .string("carry", names_.name(carried.first))
        .string("value", program_.values.at(carried.second).name)
        .json();
  }

  /// The order as pairs of a part and a turn.
  std::string schedule(const LoopSchedule& schedule) const {
    return Line()
        .integer("loop", schedule.loop)
        .raw("parts", array(schedule.parts, [](int count) { return fmt::format("{}", count); }))
        .raw("order", array(schedule.order, [](auto& run) { return fmt::format("[{}, {}]", run.part, run.turn); }))
        .json();
  }

  std::string final_value(const std::pair<NodeId, ValueId>& final) const {
    return Line()
        .string("target", names_.name(final.first))
        .string("value", program_.values.at(final.second).name)
        .json();
  }

 private:
  const std::string& axis(int index) const { return program_.mesh.axes.at(index).name; }
  const std::string& table_name(int index) const { return program_.tables.at(index).name; }

  void collective(const Instruction& instruction, Line& line) const {
    const OpcodeFields fields = fields_of(instruction.opcode);
    line.string("axis", axis(instruction.axis));
    if (fields.cut) line.integer("dim", instruction.dim).string("table", table_name(instruction.table));
    if (fields.to_cut) line.integer("to_dim", instruction.to_dim).string("to_table", table_name(instruction.to_table));
    if (fields.reduce) line.string("reduce", name(instruction.reduce));
    if (fields.root) line.integer("root", instruction.root);
    if (fields.to) line.integer("to", instruction.to);
    if (fields.halo) line.integer("before", instruction.before).integer("after", instruction.after);
    if (fields.realisation) line.string("realisation", name(instruction.realisation));
    if (instruction.bucket >= 0) line.integer("bucket", instruction.bucket);
  }

  std::string splits(const Instruction& instruction) const {
    const Space& space = reference_[instruction.node].space;
    Line line;
    for (size_t a = 0; a < program_.mesh.axes.size(); ++a) {
      const Split& split = instruction.splits.at(a);
      line.string(axis(int(a)), split.factor >= 0  ? fmt::format("split({}, {})", factor_text(space, split.factor),
                                                                 table_name(split.table))
                                : split.stage >= 0 ? fmt::format("stage({})", split.stage)
                                                   : "whole");
    }
    return line.json();
  }

  std::string placements(const Placements& placements) const {
    Line line;
    for (size_t a = 0; a < program_.mesh.axes.size(); ++a) line.string(axis(int(a)), placement(placements.at(a)));
    return line.json();
  }

  std::string placement(const Placement& placement) const {
    switch (placement.kind) {
      case Placement::Kind::replicated:
        return "replicated";
      case Placement::Kind::sharded:
        if (placement.overlaps())
          return fmt::format("overlapping({}, {}, {}, {})", placement.dim, placement.before, placement.after,
                             table_name(placement.table));
        return fmt::format("sharded({}, {})", placement.dim, table_name(placement.table));
      case Placement::Kind::partial:
        return fmt::format("partial({})", name(placement.reduce));
      case Placement::Kind::stage:
        return fmt::format("stage({})", placement.at);
    }
    return "";
  }

  const SpmdProgram& program_;
  const Program& reference_;
  NodeNames names_;
};

std::string decisions(const Plan& plan, const Program& reference) {
  const SpmdProgram program = canonical(plan.program);
  const Writer writer(program, reference);
  const auto axis = [](const Mesh::Axis& axis) {
    return Line().string("axis", axis.name).integer("size", axis.size).json();
  };
  const auto ratios = [](const std::vector<double>& shares) { return array(shares, number); };
  std::string text = "{\n";
  text += "    \"mesh\": " + array(program.mesh.axes, axis) + ",\n";
  if (!program.hosts.empty())
    text += "    \"hosts\": " + array(program.hosts, [](int host) { return fmt::format("{}", host); }) + ",\n";
  text += "    \"ratios\": " + array(plan.ratios, ratios) + ",\n";
  text += "    \"tables\": " +
          lines(program.tables, "    ", [&](const BoundaryTable& table) { return writer.table(table); }) + ",\n";
  text += "    \"leaves\": " + lines(program.leaves, "    ", [&](ValueId id) { return writer.leaf(id); }) + ",\n";
  text += "    \"instructions\": " +
          lines(program.instructions, "    ", [&](const Instruction& i) { return writer.instruction(i); }) + ",\n";
  text +=
      "    \"finals\": " + lines(program.finals, "    ", [&](const auto& final) { return writer.final_value(final); }) +
      ",\n";
  if (!program.carried.empty())
    text += "    \"carried\": " +
            lines(program.carried, "    ", [&](const auto& carried) { return writer.carried(carried); }) + ",\n";
  if (!program.schedules.empty())
    text += "    \"schedules\": " +
            lines(program.schedules, "    ", [&](const auto& schedule) { return writer.schedule(schedule); }) + ",\n";
  text +=
      "    \"loss\": " + (program.loss < 0 ? std::string("null") : json_quoted(program.values.at(program.loss).name)) +
      "\n";
  return text + "  }";
}

std::string plan_device(const PlanDevice& device) {
  Line line;
  line.string("name", device.name)
      .string("kind", device.kind == DeviceKind::cpu ? "cpu" : "cuda")
      .string("model", device.model)
      .string("architecture", device.architecture);
  const auto word = [](const FusedProduct& product) { return json_quoted(hetsynth::text(product)); };
  if (device.epilogues) line.raw("epilogues", array(*device.epilogues, word));
  if (device.attention) line.string("attention", std::string(name(*device.attention)));
  return line.json();
}

std::string device_prediction(const DevicePrediction& device) {
  return Line()
      .string("device", device.device)
      .raw("share", number(device.share))
      .raw("compute_seconds", number(device.compute_seconds))
      .raw("communication_seconds", number(device.communication_seconds))
      .raw("hidden_seconds", number(device.hidden_seconds))
      .raw("idle_seconds", number(device.idle_seconds))
      .integer("memory_bytes", device.memory_bytes)
      .integer("memory_limit_bytes", device.memory_limit_bytes)
      .json();
}

std::string baseline_prediction(const BaselinePrediction& baseline) {
  return Line()
      .string("name", baseline.name)
      .raw("step_seconds", number(baseline.step_seconds))
      .raw("feasible", baseline.feasible ? "true" : "false")
      .string("note", baseline.note)
      .json();
}

std::string trial_text(const Trial& trial) {
  Line line;
  line.raw("mesh", array(trial.mesh, [](int size) { return fmt::format("{}", size); }))
      .string("devices", trial.devices)
      .integer("device_count", trial.device_count)
      .raw("bound_seconds", number(trial.bound_seconds));
  if (trial.step_seconds > 0)
    line.raw("step_seconds", number(trial.step_seconds))
        .raw("compute_seconds", number(trial.compute_seconds))
        .raw("communication_seconds", number(trial.communication_seconds))
        .raw("hideable_seconds", number(trial.hideable_seconds))
        .raw("latency_seconds", number(trial.latency_seconds));
  return line.string("outcome", trial.outcome).json();
}

std::string turn_trial_text(const TurnTrial& trial) {
  Line line;
  line.string("turns", trial.turns);
  if (trial.stages > 1) line.integer("stages", trial.stages).integer("stage_devices", trial.stage_devices);
  if (trial.step_seconds > 0)
    line.raw("step_seconds", number(trial.step_seconds))
        .raw("compute_seconds", number(trial.compute_seconds))
        .raw("communication_seconds", number(trial.communication_seconds));
  if (trial.short_of_memory) line.raw("short_of_memory", "true");
  return line.raw("taken", trial.taken ? "true" : "false").json();
}

std::string prediction_json(const Prediction& prediction) {
  std::string text = "{\n";
  text += "    \"step_seconds\": " + number(prediction.step_seconds) + ",\n";
  if (prediction.floor_seconds > 0) text += "    \"floor_seconds\": " + number(prediction.floor_seconds) + ",\n";
  text += "    \"objective_seconds\": " + number(prediction.objective_seconds) + ",\n";
  if (prediction.hidden_weight < 1) text += "    \"hidden_weight\": " + number(prediction.hidden_weight) + ",\n";
  text += "    \"lower_bound_seconds\": " + number(prediction.lower_bound_seconds) + ",\n";
  if (prediction.cut_short) text += "    \"cut_short\": true,\n";
  if (prediction.shares_bound_seconds > 0)
    text += "    \"shares_bound_seconds\": " + number(prediction.shares_bound_seconds) + ",\n";
  text += fmt::format("    \"optimal\": {},\n", prediction.optimal);
  text += "    \"devices\": " + lines(prediction.devices, "    ", device_prediction) + ",\n";
  text += "    \"baselines\": " + lines(prediction.baselines, "    ", baseline_prediction);
  if (!prediction.turns.empty()) text += ",\n    \"turns\": " + lines(prediction.turns, "    ", turn_trial_text);
  if (!prediction.considered.empty())
    text += ",\n    \"considered\": " + lines(prediction.considered, "    ", trial_text);
  text += "\n";
  return text + "  }";
}

}  // namespace

std::string plan_to_json(const Plan& plan, const Program& reference) {
  Line options;
  for (const OptionValue& option : plan.model_options) options.string(option.name, option.value);
  std::string text = "{\n";
  text += fmt::format("  \"schema\": {},\n", plan_schema_version);
  text += "  \"tool\": " + json_quoted(plan.tool_version) + ",\n";
  text += "  \"model\": {\n";
  text += "    \"file\": " + json_quoted(plan.model_file) + ",\n";
  text += "    \"hash\": " + json_quoted(plan.model_hash) + ",\n";
  text += "    \"options\": " + options.json() + "\n  },\n";
  text += "  \"cluster\": " + Line().string("name", plan.cluster_name).string("hash", plan.cluster_hash).json() + ",\n";
  text += "  \"devices\": " + lines(plan.devices, "  ", plan_device) + ",\n";
  text += "  \"decisions\": " + decisions(plan, reference) + ",\n";
  text += "  \"prediction\": " + prediction_json(plan.prediction) + "\n";
  return text + "}\n";
}

}  // namespace hetsynth
