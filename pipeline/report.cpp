#include "pipeline/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "dsl/base/counted.h"
#include "dsl/spmd/recomputation.h"
#include "pipeline/considered.h"

namespace hetsynth {

using Json = nlohmann::ordered_json;

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

std::string bytes_text(double bytes) {
  static constexpr std::array units = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < units.size()) bytes /= 1024, ++unit;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, units[unit]);
}

namespace {

/// What devices have after a halo exchange and had not before it, all together.
double halo_elements(const SpmdProgram& program, const Program& reference, const Instruction& exchange) {
  double out = 0;
  for (int rank = 0; rank < program.mesh.device_count(); ++rank)
    for (const ValueId value : {exchange.result, exchange.operands[0]}) {
      const Value& held = program.values[size_t(value)];
      const double elements =
          double(part_elements(local_ranges(program, held.placements, reference[held.node].type.shape, rank)));
      out += value == exchange.result ? elements : -elements;
    }
  return out;
}

/// Of instructions, and of the tensors they carry or make.
struct CountAndBytes {
  int count = 0;
  double bytes = 0;
};

/// By kind of collective; of halo exchanges the halos' bytes alone.
std::map<std::string, CountAndBytes> collectives(const SpmdProgram& program, const Program& reference) {
  std::map<std::string, CountAndBytes> out;
  for (const Instruction& i : program.instructions) {
    if (!communicates(i.opcode)) continue;
    const TensorType& type = reference[program.values[i.result].node].type;
    CountAndBytes& entry = out[std::string(name(i.opcode))];
    ++entry.count;
    const double elements =
        i.opcode == Opcode::halo_exchange ? halo_elements(program, reference, i) : double(element_count(type.shape));
    entry.bytes += elements * double(size_bytes(type.dtype));
  }
  return out;
}

/// How many parameters are kept whole on every device and how many are cut.
std::pair<int, int> parameters_whole_and_cut(const SpmdProgram& program, const Program& reference) {
  std::pair<int, int> out{0, 0};
  for (ValueId leaf : program.leaves) {
    const Value& value = program.values[leaf];
    if (reference[value.node].kind != NodeKind::parameter) continue;
    bool cut = false;
    for (const Placement& p : value.placements) cut = cut || p.kind == Placement::Kind::sharded;
    ++(cut ? out.second : out.first);
  }
  return out;
}

/// Values that the backward pass computes again, or brings into a form again that they had, because there is no room to
/// keep them.
std::string made_again_text(const SpmdProgram& program, const Program& reference) {
  CountAndBytes computed, converted;
  const std::vector<char> again = made_again(program);
  for (const Instruction& instruction : program.instructions) {
    if (!again[size_t(instruction.result)]) continue;
    const TensorType& type = reference[program.values[size_t(instruction.result)].node].type;
    CountAndBytes& total = instruction.opcode == Opcode::compute ? computed : converted;
    ++total.count;
    total.bytes += double(element_count(type.shape)) * double(size_bytes(type.dtype));
  }
  std::string out;
  for (const auto& [total, what] : {std::pair(computed, "made again"), std::pair(converted, "converted again")})
    if (total.count > 0)
      out += fmt::format("  {:>4} {:<15} {:>11} a step, not kept from the forward pass as memory is short\n",
                         total.count, what, bytes_text(total.bytes));
  return out;
}

/// Devices that are alike in every printed figure share a line: "gpu0 .. gpu15".
struct DeviceRow {
  size_t first, last;
};

std::vector<DeviceRow> device_rows(const std::vector<DevicePrediction>& devices) {
  auto line = [](const DevicePrediction& d) {
    return fmt::format("{:.3f} {} {} {} {} {}", d.share, seconds_text(d.compute_seconds),
                       seconds_text(d.communication_seconds), seconds_text(d.hidden_seconds),
                       seconds_text(d.idle_seconds), bytes_text(double(d.memory_bytes)));
  };
  std::vector<DeviceRow> rows;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (devices.size() > 8 && !rows.empty() && line(devices[rows.back().last]) == line(devices[i]))
      rows.back().last = i;
    else
      rows.push_back({i, i});
  }
  return rows;
}

std::string devices_text(const std::vector<DevicePrediction>& devices) {
  std::string out = fmt::format("  {:<28} {:>7} {:>10} {:>13} {:>10} {:>10} {:>11} {:>11}\n", "device", "share",
                                "compute", "communication", "hidden", "idle", "memory", "limit");
  for (const DeviceRow& row : device_rows(devices)) {
    const DevicePrediction& d = devices[row.first];
    std::string name = row.first == row.last ? d.device : fmt::format("{} .. {}", d.device, devices[row.last].device);
    out += fmt::format("  {:<28} {:>6.1f}% {:>10} {:>13} {:>10} {:>10} {:>11} {:>11}{}\n", name, 100 * d.share,
                       seconds_text(d.compute_seconds), seconds_text(d.communication_seconds),
                       seconds_text(d.hidden_seconds), seconds_text(d.idle_seconds), bytes_text(double(d.memory_bytes)),
                       d.memory_limit_bytes > 0 ? bytes_text(double(d.memory_limit_bytes)) : "-",
                       d.share == 0 ? "  (left out: does not pay)" : "");
  }
  return out;
}

/// "a, b, c", or the ends of a long list.
std::string name_list(const std::vector<std::string>& names) {
  if (names.size() > 6) return fmt::format("{} .. {} ({} devices)", names.front(), names.back(), names.size());
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

/// A batch of fewer samples than devices is legal, since other dimensions can be cut, but seldom what was meant.
std::string small_batch_text(const Plan& plan, const Program& reference) {
  for (const Node& node : reference.nodes) {
    const int64_t at_a_time = sample_count(node) / node.micro_batch.turns;
    if (node.kind == NodeKind::input && !node.type.shape.empty() && at_a_time < int64_t(plan.devices.size()))
      return fmt::format(
          "  note: {}: the batch of {} has {} samples for {} devices: they cannot each have one; raise it with --batch "
          "N\n",
          node.where.text(), node.name, at_a_time, plan.devices.size());
  }
  return "";
}

}  // namespace

std::string turns_and_stages(const TurnTrial& trial) {
  std::string how = trial.turns == "1" ? "all at once" : trial.turns + " turns";
  if (trial.stages > 1) how += fmt::format(" on {} stages of {}", trial.stages, counted(trial.stage_devices, "device"));
  return how;
}

namespace {

/// In how many turns the step is taken, if planning chose that, and what other numbers would take.
std::string turns_text(const Prediction& p) {
  std::string out, others;
  for (const TurnTrial& trial : p.turns) {
    const std::string time = trial.step_seconds > 0 ? seconds_text(trial.step_seconds) : "no plan found";
    const std::string how = turns_and_stages(trial);
    if (trial.taken)
      out = fmt::format("  taken in {:<29} {:>8}", how, time);
    else
      others += fmt::format("{}{}: {}", others.empty() ? "" : ", ", how, time);
  }
  return out.empty() ? "" : fmt::format("{}  ({})\n", out, others);
}

std::string baselines_text(const Prediction& prediction) {
  std::string out;
  for (const BaselinePrediction& b : prediction.baselines) {
    std::string time = b.feasible ? seconds_text(b.step_seconds) : "does not fit";
    std::string ratio = b.feasible && prediction.step_seconds > 0
                            ? fmt::format("  {:.2f}x the plan's", b.step_seconds / prediction.step_seconds)
                            : "";
    out += fmt::format("  {:<34} {:>12}{}{}\n", b.name, time, ratio, b.note.empty() ? "" : "  (" + b.note + ")");
  }
  return out;
}

/// What is proven of what the search minimised.
std::string proof_text(const Prediction& p) {
  auto gap = [&](double bound) { return fmt::format("{:.2g} %", 100 * (1 - bound / p.objective_seconds)); };
  std::string out = p.optimal ? "optimal under the cost model at these shares" : "";
  if (!p.optimal)
    out = p.lower_bound_seconds > 0
              ? fmt::format("lower bound {}, gap {}", seconds_text(p.lower_bound_seconds), gap(p.lower_bound_seconds))
          : std::ranges::any_of(p.turns, [](const TurnTrial& trial) { return trial.taken && trial.stages > 1; })
              ? "for pipelines no bound is known"
              : "no bound yet";
  if (p.cut_short) out += "; the search for a faster plan was ended early";
  if (p.shares_bound_seconds > 0)
    out += fmt::format("; over all shares: lower bound {}, gap {}", seconds_text(p.shares_bound_seconds),
                       gap(p.shares_bound_seconds));
  return out;
}

/// How near the step is to what no plan is below.
std::string speed_text(const Prediction& p) {
  if (p.floor_seconds <= 0 || p.step_seconds <= 0) return "";
  return fmt::format("{:.0f} % of the cluster's speed: no step is below {}", 100 * p.floor_seconds / p.step_seconds,
                     seconds_text(p.floor_seconds));
}

/// The step, and the sum that the search minimised with what is proven of it. What they differ by is communication
/// that goes together or runs beside computing, and devices that do not wait for one another.
std::string step_text(const Prediction& p) {
  const auto line = [](std::string_view name, double seconds, const std::string& more) {
    return fmt::format("  {:<34} {:>12}{}\n", name, seconds_text(seconds), more.empty() ? "" : "  (" + more + ")");
  };
  const std::string speed = speed_text(p);
  if (seconds_text(p.step_seconds) == seconds_text(p.objective_seconds))
    return line("predicted step", p.step_seconds, proof_text(p) + (speed.empty() ? "" : "; " + speed));
  return line("predicted step", p.step_seconds, speed) +
         line(p.hidden_weight < 1 ? "added up, what may hide by half" : "added up", p.objective_seconds, proof_text(p));
}

}  // namespace

std::string plan_text(const Plan& plan, const Program& reference, const std::vector<std::string>& left_out) {
  const Prediction& p = plan.prediction;
  auto [whole, cut] = parameters_whole_and_cut(plan.program, reference);
  std::string out = fmt::format("plan for {} on {} ({})\n", plan.model_file, plan.cluster_name,
                                counted(int64_t(plan.devices.size()), "device"));
  out += fmt::format("  {} parameters in {} tensors: {} whole on every device, {} cut\n", reference.parameter_count(),
                     whole + cut, whole, cut);
  for (const auto& [kind, entry] : collectives(plan.program, reference))
    out += fmt::format("  {:>4} {:<15} {:>11} a step\n", entry.count, kind, bytes_text(entry.bytes));
  out += made_again_text(plan.program, reference);
  out += devices_text(p.devices);
  if (!left_out.empty()) out += "  left out, since they do not pay: " + name_list(left_out) + "\n";
  if (const std::string reason = why_left_out(plan); !reason.empty()) out += "    " + reason + "\n";
  out += step_text(p);
  out += turns_text(p);
  return out + baselines_text(p) + considered_text(p) + small_batch_text(plan, reference);
}

std::string assumed_speeds_text(const Cluster& cluster, const Program& reference) {
  std::string out;
  for (const auto& [operands, speed] : {std::pair(DType::bf16, &DeviceSpeed::matmul_bf16_flops_per_second),
                                        {DType::fp16, &DeviceSpeed::matmul_fp16_flops_per_second}}) {
    const auto has_type = [type = operands](const Node& node) { return node.type.dtype == type; };
    if (std::ranges::none_of(reference.nodes, has_type)) continue;
    std::vector<std::string> names;
    for (const Device& device : cluster.devices)
      if (device.kind == DeviceKind::cuda && !(device.measured.*speed) && !(device.declared.*speed))
        names.push_back(device.name);
    if (!names.empty())
      out += fmt::format(
          "  note: products of {0} count as fast as those of float32 on {1}, of which no matmul_{0} is "
          "known\n",
          name(operands), name_list(names));
  }
  return out;
}

std::string plan_line(const Plan& plan, const TurnCount& turns) {
  std::vector<int> sizes;
  for (const Mesh::Axis& axis : plan.program.mesh.axes) sizes.push_back(axis.size);
  std::string out = fmt::format("mesh {} on {}:", fmt::join(sizes, " x "), plan.cluster_name);
  const std::vector<DevicePrediction>& shares = plan.prediction.devices;
  for (size_t rank = 0; rank < plan.devices.size(); ++rank) {
    out += fmt::format("{} {}", rank > 0 ? "," : "", plan.devices[rank].name);
    if (shares.size() == plan.devices.size()) out += fmt::format(" {:.1f}%", 100 * shares[rank].share);
  }
  return turns.turns > 1 ? fmt::format("{}; {} turns", out, text(turns)) : out;
}

std::string plan_json(const Plan& plan, const Program& reference, const std::vector<std::string>& left_out) {
  const Prediction& p = plan.prediction;
  Json out;
  out["model"] = plan.model_file;
  out["cluster"] = plan.cluster_name;
  out["parameters"] = reference.parameter_count();
  out["step_seconds"] = p.step_seconds;
  if (p.floor_seconds > 0) out["floor_seconds"] = p.floor_seconds;
  out["objective_seconds"] = p.objective_seconds;
  if (p.hidden_weight < 1) out["hidden_weight"] = p.hidden_weight;
  out["lower_bound_seconds"] = p.lower_bound_seconds;
  if (p.cut_short) out["cut_short"] = true;
  if (p.shares_bound_seconds > 0) out["shares_bound_seconds"] = p.shares_bound_seconds;
  if (p.objective_seconds > 0) out["gap"] = std::max(0.0, 1 - p.lower_bound_seconds / p.objective_seconds);
  out["optimal"] = p.optimal;
  for (const TurnTrial& trial : p.turns)
    out["turns"].push_back({{"turns", trial.turns},
                            {"stages", trial.stages},
                            {"step_seconds", trial.step_seconds},
                            {"taken", trial.taken}});
  out["devices"] = Json::array();
  for (const DevicePrediction& d : p.devices)
    out["devices"].push_back({{"device", d.device},
                              {"share", d.share},
                              {"compute_seconds", d.compute_seconds},
                              {"communication_seconds", d.communication_seconds},
                              {"hidden_seconds", d.hidden_seconds},
                              {"idle_seconds", d.idle_seconds},
                              {"memory_bytes", d.memory_bytes},
                              {"memory_limit_bytes", d.memory_limit_bytes}});
  out["left_out"] = left_out;
  if (const std::string reason = why_left_out(plan); !reason.empty()) out["left_out_because"] = reason;
  out["collectives"] = Json::object();
  for (const auto& [kind, entry] : collectives(plan.program, reference))
    out["collectives"][kind] = {{"count", entry.count}, {"bytes", entry.bytes}};
  out["baselines"] = Json::array();
  for (const BaselinePrediction& b : p.baselines)
    out["baselines"].push_back(
        {{"name", b.name}, {"feasible", b.feasible}, {"step_seconds", b.step_seconds}, {"note", b.note}});
  out["considered"] = considered_json(p);
  return out.dump(2) + "\n";
}

std::string turns_verification_text(const Verification& v, const std::string& turns) {
  if (v.verdict != Verdict::proved) return fmt::format("turns: not proved to be the step: {}\n", v.summary);
  return fmt::format("turns: {} turns are proved to be the step of the whole batch ({} obligations in {})\n", turns,
                     v.obligations, seconds_text(v.seconds));
}

std::string verification_text(const Verification& v, const Program& reference, const SpmdProgram& program) {
  std::string out;
  switch (v.verdict) {
    case Verdict::proved:
      out = fmt::format(
          "proved: every device's program together computes what {} says, for all sizes, boundaries and device "
          "counts\n",
          reference.model_file);
      out += fmt::format("  {} obligations ({} distinct) and {} lemmas by {} in {}\n", v.obligations,
                         v.distinct_obligations, v.lemmas, v.solver, seconds_text(v.seconds));
      if (v.trials > 0) out += fmt::format("  executed at {} small instances beside the proof: they agree\n", v.trials);
      break;
    case Verdict::refuted:
      out = fmt::format("refuted: {}\n", v.summary);
      break;
    case Verdict::unknown:
      out = fmt::format("not proved: {}\n", v.summary);
      break;
  }
  if (v.verdict != Verdict::proved && v.instruction >= 0 && v.instruction < int(program.instructions.size())) {
    const Instruction& i = program.instructions[v.instruction];
    if (i.result >= 0 && i.result < int(program.values.size()))
      out +=
          fmt::format("  at instruction {}: {} = {}\n", v.instruction, program.values[i.result].name, name(i.opcode));
  }
  if (v.verdict == Verdict::refuted) {
    if (v.counterexample.where.known())
      out += fmt::format("  {}: the tensor whose value differs first\n", v.counterexample.where.text());
    out += v.counterexample.text;
    if (!out.empty() && out.back() != '\n') out += "\n";
  }
  for (const std::string& assumption : v.assumptions) out += "  scope: " + assumption + "\n";
  return out;
}

std::string source_check_text(const GeneratedCheck& check, const Program& reference) {
  std::string cached = check.from_cache ? fmt::format(" ({} from the cache)", check.from_cache) : "";
  if (check.verdict == Verdict::proved)
    return fmt::format("source: the generated programs of {} ranks do what the plan says, checked in {}{}\n",
                       check.ranks.size(), seconds_text(check.seconds), cached);
  const SourceCheck& worst = check.worst();
  std::string place = worst.line > 0 ? fmt::format(" line {}", worst.line) : "";
  std::string out = fmt::format("source {}: rank {}{}: {}\n",
                                check.verdict == Verdict::refuted ? "refuted" : "not followed to its end", worst.rank,
                                place, worst.summary);
  if (worst.where.known())
    out += fmt::format("  {}: the tensor concerned, in {}\n", worst.where.text(), reference.model_file);
  if (check.verdict == Verdict::unknown && worst.out_of_work)
    out += "  `hetsynth verify MODEL PLAN --source` takes the time for all of it\n";
  return out;
}

std::string numeric_check_text(const NumericCheck& check) {
  size_t name_width = 6;
  for (const TensorError& t : check.tensors) name_width = std::max(name_width, t.name.size());
  std::string out = fmt::format("  {:<{}}  {:>11}  {:>11}  {:>11}  {:>11}\n", "tensor", name_width, "largest", "error",
                                "bound", "longest sum");
  for (const TensorError& t : check.tensors)
    out += fmt::format("  {:<{}}  {:>11.3g}  {:>11.3g}  {:>11.3g}  {:>11}{}\n", t.name, name_width, t.largest, t.error,
                       t.bound, t.longest_sum,
                       !t.agrees() ? "  DIFFERS"
                       : t.finite  ? ""
                                   : "  not finite, in both");
  if (check.agrees())
    return fmt::format("numbers agree: one step of {} tensors is within rounding of the interpreter's, checked in {}\n",
                       check.tensors.size(), seconds_text(check.seconds)) +
           out;
  return fmt::format("numbers differ: {} is off by {:.3g}, which rounding does not explain (at most {:.3g})\n",
                     check.worst()->name, check.worst()->error, check.worst()->bound) +
         out;
}

std::string verification_json(const Verification& v, const GeneratedCheck* source, const NumericCheck* numbers) {
  Json out;
  out["verdict"] = name(v.verdict);
  out["summary"] = v.summary;
  out["instruction"] = v.instruction;
  out["counterexample"] = v.counterexample.text;
  if (v.verdict == Verdict::refuted) out["evidence"] = name(v.counterexample.evidence);
  out["where"] = v.counterexample.where.text();
  out["obligations"] = v.obligations;
  out["distinct_obligations"] = v.distinct_obligations;
  out["lemmas"] = v.lemmas;
  out["trials"] = v.trials;
  out["seconds"] = v.seconds;
  out["solver"] = v.solver;
  out["assumptions"] = v.assumptions;
  if (source && !source->ranks.empty()) {
    const SourceCheck& worst = source->worst();
    out["source"] = {
        {"verdict", name(source->verdict)}, {"ranks", source->ranks.size()}, {"rank", worst.rank}, {"line", worst.line},
        {"summary", worst.summary},         {"seconds", source->seconds}};
  }
  if (numbers) {
    out["numeric"] = {{"agrees", numbers->agrees()}, {"seconds", numbers->seconds}, {"tensors", Json::array()}};
    for (const TensorError& t : numbers->tensors)
      out["numeric"]["tensors"].push_back({{"name", t.name},
                                           {"largest", t.largest},
                                           {"error", t.error},
                                           {"bound", t.bound},
                                           {"longest_sum", t.longest_sum}});
  }
  return out.dump(2) + "\n";
}

}  // namespace hetsynth
