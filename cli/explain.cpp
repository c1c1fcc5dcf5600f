#include "cli/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/step_limits.h"
#include "cli/trace_events.h"
#include "dsl/spmd/hosts.h"
#include "dsl/spmd/recomputation.h"
#include "pipeline/considered.h"
#include "pipeline/report.h"
#include "runtime/launch.h"
#include "synth/planner/synthesize.h"

namespace hetsynth::cli {
namespace {

using Json = nlohmann::ordered_json;

const Node& result_node(const Explanation& e, size_t i) {
  return e.reference[e.plan.program.values[e.plan.program.instructions[i].result].node];
}

std::string phases_text(const Explanation& e) {
  std::map<Phase, StepTotals> phases;
  StepTotals twice;
  const std::vector<char> again = made_again(e.plan.program);
  for (size_t i = 0; i < e.prices.size(); ++i) {
    const bool copy = again[size_t(e.plan.program.instructions[i].result)];
    const Phase phase = result_node(e, i).phase;
    StepTotals& totals = phases[copy ? std::max(phase, Phase::backward) : phase];
    (e.prices[i].communicates() ? totals.communicating : totals.computing) += e.prices[i].seconds;
    if (copy) (e.prices[i].communicates() ? twice.communicating : twice.computing) += e.prices[i].seconds;
  }
  std::string out = fmt::format("  {:<34} {:>12} {:>14}\n", "phase", "computing", "communicating");
  for (const auto& [phase, totals] : phases)
    out += fmt::format("  {:<34} {:>12} {:>14}\n", name(phase), seconds_text(totals.computing),
                       seconds_text(totals.communicating));
  if (std::any_of(again.begin(), again.end(), [](char copy) { return copy; }))
    out += fmt::format("  {:<34} {:>12} {:>14}\n", "  of these, made again", seconds_text(twice.computing),
                       seconds_text(twice.communicating));
  return out;
}

/// Layers repeat: what is alike but for the numbers in its name is one row.
struct Row {
  size_t first;
  std::vector<size_t> more = {};
  int count() const { return 1 + int(more.size()); }
};

std::string without_numbers(const std::string& name) {
  std::string out;
  for (char c : name)
    if (!std::isdigit(static_cast<unsigned char>(c))) out += c;
  return out;
}

/// The rows of the dearest instructions, by the seconds of all of a row. `how`: what else has to be alike.
template <typename How>
std::vector<Row> dearest_rows(const Explanation& e, bool communicating, How how) {
  std::map<std::string, size_t> at;
  std::vector<Row> rows;
  for (size_t i = 0; i < e.prices.size(); ++i) {
    if (e.prices[i].communicates() != communicating || e.prices[i].seconds <= 0) continue;
    const Node& node = result_node(e, i);
    auto [it, fresh] = at.try_emplace(
        fmt::format("{} {} {} {}", e.prices[i].seconds, without_numbers(node.name), node.where.line, how(i)),
        rows.size());
    if (fresh)
      rows.push_back({i});
    else
      rows[it->second].more.push_back(i);
  }
  std::stable_sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
    return e.prices[a.first].seconds * a.count() > e.prices[b.first].seconds * b.count();
  });
  return rows;
}

/// "gpt.cpp:23": the folder is the model's, named above.
std::string place_text(const SourceLocation& where) {
  return fmt::format("{}:{}", where.file.substr(where.file.rfind('/') + 1), where.line);
}

std::string count_text(const Row& row) { return row.count() > 1 ? fmt::format("{} x", row.count()) : ""; }

std::string more_text(size_t rows, int lines) {
  return lines > 0 && rows > size_t(lines) ? fmt::format("  and {} more rows (--all)\n", rows - size_t(lines)) : "";
}

/// How an operator is divided: "a of 12 cut by tokens.0", "on stage 1 of pp".
std::string division_text(const Explanation& e, const Instruction& instruction) {
  if (instruction.opcode != Opcode::compute) return std::string(name(instruction.opcode));
  const Node& node = e.reference[instruction.node];
  std::string how;
  for (size_t a = 0; a < instruction.splits.size(); ++a) {
    const Split& split = instruction.splits[a];
    const char* comma = how.empty() ? "" : ", ";
    if (split.factor >= 0)
      how += fmt::format("{}{} of {} cut by {}", comma, node.space.factors[split.factor].name,
                         node.space.factors[split.factor].size, e.plan.program.tables[split.table].name);
    else if (split.stage >= 0)
      how += fmt::format("{}on stage {} of {}", comma, split.stage, e.plan.program.mesh.axes[a].name);
  }
  return how.empty() ? "whole on every device" : how;
}

std::string operators_text(const Explanation& e, int lines) {
  auto how = [&](size_t i) { return division_text(e, e.plan.program.instructions[i]); };
  auto rows = dearest_rows(e, false, how);
  std::string out = "the dearest operators (seconds of the slowest device)\n";
  for (size_t r = 0; r < rows.size() && (lines == 0 || r < size_t(lines)); ++r) {
    const Node& node = result_node(e, rows[r].first);
    out += fmt::format("  {:>6} {:>10}  {:<28} {:<14} {:<30} {}\n", count_text(rows[r]),
                       seconds_text(e.prices[rows[r].first].seconds), node.name, node.tag(), how(rows[r].first),
                       place_text(node.where));
  }
  return out + more_text(rows.size(), lines);
}

/// "all_gather", "all_gather padded".
std::string movement_text(const Instruction& instruction) {
  if (instruction.realisation == Realisation::native) return std::string(name(instruction.opcode));
  return fmt::format("{} {}", name(instruction.opcode), name(instruction.realisation));
}

/// How much of the row's communication runs beside computing, and beside what most of all.
std::string hidden_text(const Explanation& e, const Row& row, const std::vector<HiddenPart>& hidden) {
  double seconds = e.prices[row.first].seconds * row.count(), beside = hidden[row.first].seconds;
  size_t longest = row.first;
  for (const size_t i : row.more) {
    beside += hidden[i].seconds;
    if (hidden[i].seconds > hidden[longest].seconds) longest = i;
  }
  if (hidden[longest].beside < 0) return "";
  return fmt::format("  {:>19}{:.0f} % of it hidden, most beside {}\n", "", 100 * std::min(1.0, beside / seconds),
                     result_node(e, size_t(hidden[longest].beside)).name);
}

std::string collectives_text(const Explanation& e, int lines) {
  auto how = [&](size_t i) { return movement_text(e.plan.program.instructions[i]); };
  auto rows = dearest_rows(e, true, how);
  if (rows.empty()) return "nothing is communicated\n";
  std::string out = "collectives, the dearest first\n";
  for (size_t r = 0; r < rows.size() && (lines == 0 || r < size_t(lines)); ++r) {
    const InstructionPrice& price = e.prices[rows[r].first];
    const Node& node = result_node(e, rows[r].first);
    const std::string& cause = e.plan.program.instructions[rows[r].first].cause;
    out += fmt::format("  {:>6} {:>10}  {:<28} {:<22} {:>10}  {}\n", count_text(rows[r]), seconds_text(price.seconds),
                       node.name, how(rows[r].first), bytes_text(price.bytes), place_text(node.where));
    if (!cause.empty()) out += fmt::format("  {:>19}{}\n", "", cause);
    out += hidden_text(e, rows[r], e.hidden);
    if (const double flat = e.ring_seconds[rows[r].first]; flat > 0)
      out += fmt::format("  {:>19}within hosts first, then between them: {} would take {}\n", "",
                         e.plan.program.instructions[rows[r].first].opcode == Opcode::all_to_all
                             ? "messages between all devices"
                             : "one ring over all devices",
                         seconds_text(flat));
  }
  return out + more_text(rows.size(), lines);
}

std::string signed_seconds(double seconds) {
  return (seconds < 0 ? "-" : "+") + seconds_text(seconds < 0 ? -seconds : seconds);
}

std::string others_text(const Explanation& e) {
  const StepTotals own = totals(e.prices, e.timeline.seconds);
  std::string out = "what was not taken, and why (the runner-up first)\n";
  for (const Alternative& other : e.others) {
    if (!other.totals) {
      out += fmt::format("  {:<34} cannot run: {}\n", other.name, other.why_not);
      continue;
    }
    out += fmt::format("  {:<34} {:>10}  {} a step: computing {}, communicating {}\n", other.name,
                       seconds_text(other.totals->step), signed_seconds(other.totals->step - own.step),
                       signed_seconds(other.totals->computing - own.computing),
                       signed_seconds(other.totals->communicating - own.communicating));
  }
  return out;
}

/// The step with waiting at collectives alone and communication beside computing, where devices can.
std::string timeline_text(const Explanation& e) {
  const double added = step_seconds(e.prices);
  double hidden = 0;
  for (const DeviceTimeline& device : e.timeline.devices) hidden = std::max(hidden, device.hidden_seconds);
  std::string out =
      fmt::format("the step as it unfolds: {} (instruction by instruction, as the search adds them up: {})\n",
                  seconds_text(e.timeline.seconds), seconds_text(added));
  if (hidden > 0)
    out += fmt::format("  communication beside computing hides up to {} of a device\n", seconds_text(hidden));
  return out;
}

/// Devices that need the same of everything are one row.
std::string memory_text(const Explanation& e) {
  std::string out = "memory where each device needs most\n";
  for (size_t d = 0; d < e.memory.size(); ++d) {
    if (d > 0 && e.memory[d].bytes == e.memory[d - 1].bytes) continue;
    size_t last = d;
    while (last + 1 < e.memory.size() && e.memory[last + 1].bytes == e.memory[d].bytes) ++last;
    const int at = e.memory[d].instruction;
    const int64_t limit = e.plan.prediction.devices[d].memory_limit_bytes;
    out += fmt::format("  {}{}: {} of {}, {}\n", e.plan.devices[d].name,
                       last > d ? " .. " + e.plan.devices[last].name : "", bytes_text(double(e.memory[d].total())),
                       limit > 0 ? bytes_text(double(limit)) : "no limit",
                       at < 0 ? "before the first operator" : "at " + result_node(e, size_t(at)).name);
    for (int use = 0; use < memory_uses; ++use)
      if (const int64_t bytes = e.memory[d].bytes[size_t(use)]; bytes > 0)
        out += fmt::format("    {:<20} {:>11}\n", name(MemoryUse(use)), bytes_text(double(bytes)));
  }
  return out;
}

Json totals_json(const StepTotals& totals) {
  return {{"step_seconds", totals.step},
          {"computing_seconds", totals.computing},
          {"communicating_seconds", totals.communicating}};
}

}  // namespace

StepTotals totals(const std::vector<InstructionPrice>& prices, double step) {
  StepTotals out{.step = step};
  for (const InstructionPrice& price : prices)
    (price.communicates() ? out.communicating : out.computing) += price.seconds;
  return out;
}

std::vector<Alternative> alternatives(const Plan& plan, const Program& reference, const Cluster& cluster) {
  std::vector<Alternative> out;
  for (const Trial& trial : plan.prediction.considered) {
    // One device alone is below.
    if (trial.step_seconds <= 0 || trial.outcome == "taken" || trial.device_count == 1) continue;
    const std::string name = fmt::format("mesh {} over {} devices", fmt::join(trial.mesh, " x "), trial.device_count);
    const StepTotals totals{trial.step_seconds, trial.compute_seconds, trial.communication_seconds};
    const auto same = [&](const Alternative& a) {
      return a.name == name && seconds_text(a.totals->step) == seconds_text(totals.step);
    };
    if (std::none_of(out.begin(), out.end(), same)) out.push_back({name, totals, ""});
  }
  auto add = [&](const char* name, auto make) {
    try {
      Plan plan = make();
      const std::vector<InstructionPrice> prices = price_instructions(reference, plan.program, ranks_of(plan, cluster));
      out.push_back({name, totals(prices, plan.prediction.step_seconds), ""});
    } catch (const UserError& error) {
      out.push_back({name, {}, error.diagnostic().message + ", " + error.diagnostic().found});
    }
  };
  add("even data parallel", [&] { return data_parallel_plan(reference, cluster, RatioRule::even); });
  add("speed-proportional data parallel",
      [&] { return data_parallel_plan(reference, cluster, RatioRule::proportional); });
  add("tensor parallel", [&] { return tensor_parallel_plan(reference, cluster, RatioRule::proportional); });
  if (plan.devices.size() > 1) add("fastest device alone", [&] { return single_device_plan(reference, cluster); });
  std::ranges::stable_sort(out, {}, [](const Alternative& a) { return a.totals ? a.totals->step : HUGE_VAL; });
  return out;
}

std::vector<double> on_one_ring(const Plan& plan, const Program& reference, const Cluster& cluster) {
  std::vector<double> out(plan.program.instructions.size(), 0);
  if (hierarchical_axes(plan.program).empty()) return out;
  const bool cores =
      std::ranges::all_of(cluster.devices, [](const Device& device) { return device.kind == DeviceKind::cpu; });
  for (const Realisation ring :
       cores ? std::vector{Realisation::native} : std::vector{Realisation::padded, Realisation::grouped}) {
    SpmdProgram flat = plan.program;
    for (Instruction& i : flat.instructions)
      if (i.realisation == Realisation::hierarchical) i.realisation = ring;
    const std::vector<InstructionPrice> prices = price_instructions(reference, flat, cluster);
    for (size_t i = 0; i < out.size(); ++i)
      if (plan.program.instructions[i].realisation == Realisation::hierarchical)
        out[i] = out[i] > 0 ? std::min(out[i], prices[i].seconds) : prices[i].seconds;
  }
  return out;
}

std::string explanation_text(const Explanation& e, int lines) {
  const std::vector<StepParts> parts = parts_of_step(e.plan.program, e.prices, e.timeline);
  return phases_text(e) + timeline_text(e) + parts_text(e.plan, parts) + limit_text(e.plan, parts) +
         why_turns_text(e.plan.prediction) + memory_text(e) + operators_text(e, lines) + collectives_text(e, lines) +
         others_text(e);
}

std::string explanation_json(const Explanation& e) {
  Json out = totals_json(totals(e.prices, e.timeline.seconds));
  out["instructions"] = Json::array();
  for (size_t i = 0; i < e.prices.size(); ++i) {
    const Instruction& instruction = e.plan.program.instructions[i];
    const Node& node = result_node(e, i);
    Json entry = {{"op", name(instruction.opcode)}, {"node", node.name},
                  {"phase", name(node.phase)},      {"where", node.where.text()},
                  {"seconds", e.prices[i].seconds}, {"device_seconds", e.prices[i].device_seconds}};
    if (e.prices[i].communicates()) {
      entry.update(
          {{"bytes", e.prices[i].bytes}, {"realisation", name(instruction.realisation)}, {"cause", instruction.cause}});
      entry["hidden_seconds"] = e.hidden[i].seconds;
      if (e.hidden[i].beside >= 0) entry["hidden_beside"] = result_node(e, size_t(e.hidden[i].beside)).name;
    } else {
      entry["flops"] = std::accumulate(e.prices[i].device_flops.begin(), e.prices[i].device_flops.end(), 0.0);
    }
    if (e.ring_seconds[i] > 0) entry["ring_seconds"] = e.ring_seconds[i];
    out["instructions"].push_back(std::move(entry));
  }
  out["devices"] = Json::array();
  const std::vector<StepParts> parts = parts_of_step(e.plan.program, e.prices, e.timeline);
  for (size_t d = 0; d < e.memory.size(); ++d) {
    const DeviceTimeline& timeline = e.timeline.devices[d];
    Json memory;
    for (int use = 0; use < memory_uses; ++use)
      memory[std::string(name(MemoryUse(use)))] = e.memory[d].bytes[size_t(use)];
    out["devices"].push_back({{"device", e.plan.devices[d].name},
                              {"compute_seconds", timeline.compute_seconds},
                              {"communication_seconds", timeline.communication_seconds},
                              {"hidden_seconds", timeline.hidden_seconds},
                              {"idle_seconds", timeline.idle_seconds},
                              {"waiting_share", parts[d].step() > 0 ? parts[d].waiting / parts[d].step() : 0},
                              {"memory_bytes", std::move(memory)}});
    if (const int stage = stage_of(e.plan.program, int(d)); stage >= 0) out["devices"].back()["stage"] = stage;
  }
  out["limit"] = limits_json(e.plan, parts);
  out["turns"] = turns_json(e.plan.prediction);
  out["considered"] = considered_json(e.plan.prediction);
  const std::string reason = why_left_out(e.plan);
  if (!reason.empty()) out["left_out_because"] = reason;
  out["alternatives"] = Json::array();
  for (const Alternative& other : e.others) {
    Json entry = {{"name", other.name}};
    entry.update(other.totals ? totals_json(*other.totals) : Json{{"cannot_run", other.why_not}});
    out["alternatives"].push_back(std::move(entry));
  }
  return out.dump(2) + "\n";
}

}  // namespace hetsynth::cli
