// hetsynth diff: what two plans of one model decide differently.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/pipeline_options.h"
#include "dsl/spmd/nested_cut.h"
#include "pipeline/pipeline.h"
#include "pipeline/report.h"

namespace hetsynth::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Decisions by what they are about, as text: "wte kept" -> "R", "h0.mlp.up split" -> "t of 64 over 2".
using Decisions = std::map<std::string, std::string>;

std::string shares_text(const std::vector<int64_t>& bounds) {
  std::string out;
  for (size_t i = 0; i + 1 < bounds.size(); ++i) out += fmt::format("{}{}", i ? "/" : "", bounds[i + 1] - bounds[i]);
  return out;
}

/// "10/20/34", or the groups in turn where they cut differently: "10/20/34 | 12/12/40".
std::string shares_text(const BoundaryTable& table) {
  if (varies_along(table) < 0) return shares_text(common_bounds(table));
  std::string out;
  for (const std::vector<int64_t>& row : table.rows) out += (out.empty() ? "" : " | ") + shares_text(row);
  return out;
}

Decisions decisions(const Plan& plan, const Program& reference) {
  const SpmdProgram& p = plan.program;
  Decisions out;
  std::string mesh, devices;
  for (const Mesh::Axis& axis : p.mesh.axes)
    mesh += fmt::format("{}{} {}", mesh.empty() ? "" : " x ", axis.name, axis.size);
  for (const PlanDevice& device : plan.devices) devices += (devices.empty() ? "" : ", ") + device.name;
  out["1 mesh"] = mesh;
  out["2 devices"] = devices;
  auto placements = [&](const Placements& placements) {
    std::string text;
    for (const Placement& placement : placements) {
      text += text.empty() ? "" : ", ";
      if (placement.kind == Placement::Kind::sharded)
        text += fmt::format(
            "dimension {} cut {}{}", placement.dim, shares_text(p.tables[placement.table]),
            placement.overlaps() ? fmt::format(" with {} before and {} after", placement.before, placement.after) : "");
      else if (placement.kind == Placement::Kind::stage)
        text += fmt::format("on stage {}", placement.at);
      else
        text += placement.kind == Placement::Kind::replicated ? "whole" : "partial";
    }
    return text;
  };
  for (ValueId leaf : p.leaves)
    out[fmt::format("3 {} {} is kept", name(reference[p.values[leaf].node].kind),
                    reference[p.values[leaf].node].name)] = placements(p.values[leaf].placements);
  for (const Instruction& instruction : p.instructions) {
    const Node& node = reference[p.values[instruction.result].node];
    if (instruction.opcode != Opcode::compute) {
      std::string& all = out[fmt::format("5 {} moves by", node.name)];
      all += fmt::format("{}{}", all.empty() ? "" : ", ", name(instruction.opcode));
      continue;
    }
    std::string text;
    for (const Split& split : instruction.splits) {
      text += text.empty() ? "" : ", ";
      if (split.factor >= 0)
        text += fmt::format("{} cut {}", node.space.factors[split.factor].name, shares_text(p.tables[split.table]));
      else
        text += split.stage >= 0 ? fmt::format("on stage {}", split.stage) : "whole";
    }
    std::string& all = out[fmt::format("4 {} is computed", node.name)];
    all += (all.empty() ? "" : " and ") + text;
  }
  return out;
}

struct Difference {
  std::string what, first, second;
};

std::vector<Difference> differences(const Decisions& a, const Decisions& b) {
  std::set<std::string> keys;
  for (const auto& [key, value] : a) keys.insert(key);
  for (const auto& [key, value] : b) keys.insert(key);
  std::vector<Difference> out;
  auto value = [](const Decisions& d, const std::string& key) {
    auto it = d.find(key);
    return it == d.end() ? std::string("not at all") : it->second;
  };
  for (const std::string& key : keys)
    if (value(a, key) != value(b, key)) out.push_back({key.substr(2), value(a, key), value(b, key)});
  return out;
}

std::string predictions_text(const Plan& a, const Plan& b) {
  auto memory = [](const Plan& plan) {
    int64_t most = 0;
    for (const DevicePrediction& device : plan.prediction.devices) most = std::max(most, device.memory_bytes);
    return most;
  };
  return fmt::format("predicted step: {} and {}\nmost memory of a device: {} and {}\ninstructions: {} and {}\n",
                     seconds_text(a.prediction.step_seconds), seconds_text(b.prediction.step_seconds),
                     bytes_text(double(memory(a))), bytes_text(double(memory(b))), a.program.instructions.size(),
                     b.program.instructions.size());
}

}  // namespace

Command add_diff(CLI::App& app) {
  struct Options {
    Compilation compilation;
    PipelineOutput pipeline;
    std::string second;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("diff", "Show what two plans of one model decide differently");
  add_model_options(*command, options->compilation.model_options);
  command->add_option("plan", options->compilation.plan_file, "A plan file")->required();
  command->add_option("other", options->second, "Another plan file of the same model")->required();
  command->add_flag("--json", options->json, "Report as JSON");
  add_pipeline_options(*command, options->pipeline);
  options->compilation.devices_of_plan = true;
  return [options]() {
    Compilation& c = options->compilation;
    run_pipeline(c, "synthesize", options->pipeline);
    Plan second = load_plan(options->second, c.reference);
    auto found = differences(decisions(c.plan, c.reference), decisions(second, c.reference));
    if (options->json) {
      Json out = {{"step_seconds", {c.plan.prediction.step_seconds, second.prediction.step_seconds}},
                  {"differences", Json::array()}};
      for (const Difference& d : found)
        out["differences"].push_back({{"what", d.what}, {"first", d.first}, {"second", d.second}});
      fmt::print("{}\n", out.dump(2));
      return ExitCode::done;
    }
    fmt::print("{}", predictions_text(c.plan, second));
    if (found.empty()) fmt::print("the same decisions\n");
    for (const Difference& d : found) fmt::print("{}\n  - {}\n  + {}\n", d.what, d.first, d.second);
    return ExitCode::done;
  };
}

}  // namespace hetsynth::cli
