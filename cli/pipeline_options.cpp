#include "cli/pipeline_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hetsynth::cli {

void add_cluster_or_cores(CLI::App& command, CompilationInput& compilation) {
  command.add_option("--cluster", compilation.cluster_file,
                     "Cluster file (TOML); default: the cores of this machine as equal devices");
}

void add_pipeline_options(CLI::App& command, PipelineOutput& options) {
  std::vector<std::string> names;
  for (const Stage& stage : pipeline()) names.emplace_back(stage.name);
  command.add_option("--dump-after", options.dump_after, "Print the result of this stage")->check(CLI::IsMember(names));
  command.add_flag(
      "--times", options.show_times,
      "Print the seconds each stage took on standard error, and what each strategy of planning took and gained");
}

namespace {

/// A number of mesh axes, or "auto".
std::string axes_of_word(std::string& text) {
  int axes = 0;
  if (text == "auto") text = fmt::format("{}", synth::usual_axes);
  if (CLI::detail::lexical_cast(text, axes) && axes >= 1 && axes <= synth::max_axes) return "";
  return fmt::format("expected a number from 1 to {}, or auto, found {}", synth::max_axes, text);
}

const std::map<std::string, Effort> efforts = {
    {"quick", Effort::quick}, {"normal", Effort::normal}, {"full", Effort::full}};

/// `names`: the words, as a message lists them.
template <class Value>
CLI::Validator one_of(const std::map<std::string, Value>& words, const std::string& names) {
  const auto check = [&words, names](const std::string& word) {
    return words.contains(word) ? "" : fmt::format("expected {}, found {}", names, word);
  };
  return {check, ""};
}

}  // namespace

std::vector<CLI::Option*> add_planning_options(CLI::App& app, CompilationInput& compilation) {
  CLI::Option_group& command = *app.add_option_group("Planning");
  command
      .add_option_function<std::string>(
          "--effort", [&compilation](const std::string& word) { compilation.effort = efforts.at(word); },
          "How much work the search may do, the same on every machine: quick, about a second of a core; normal, about "
          "twenty; full, until nothing more is to be found")
      ->type_name("quick|normal|full")
      ->default_str("normal")
      ->check(one_of(efforts, "quick, normal or full"));
  command
      .add_option("--time-limit", compilation.plan_seconds,
                  "Seconds after which the best plan so far is taken, whatever the effort")
      ->check(at_least(0));
  command
      .add_option("--mesh-axes", compilation.mesh_axes,
                  "Most mesh axes to plan on; 2 also tries hosts x devices and other factorisations, in the order of "
                  "their bounds, until no other can win; 3 also divides the hosts in two axes, which takes long; "
                  "auto: 2")
      ->type_name("N|auto")
      ->capture_default_str()
      ->transform(CLI::Validator(axes_of_word, ""));
  command
      .add_option("--stages", compilation.stages,
                  "Stages of a pipeline, each on some of the devices: 1 for none; otherwise as many as are fastest")
      ->check(at_least(1));
  PlanPins& pins = compilation.pins;
  command.add_option_function<std::string>(
      "--pins", [&pins](const std::string& path) { add_pins(load_pins(path), &pins); },
      "Keep to what this TOML file fixes: placements, forbidden instructions, ratio, mesh");
  command
      .add_option_function<std::vector<std::string>>(
          "--pin",
          [&pins](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) pins.placements.push_back(parse_pinned_placement(text));
          },
          "Fix where a tensor is: NAME=replicated, NAME=sharded(0), NAME=partial(sum); one placement per mesh axis")
      ->delimiter('\0');
  command
      .add_option_function<std::vector<std::string>>(
          "--forbid",
          [&pins](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) add_forbidden(text, &pins);
          },
          fmt::format("Do without: {} (recompute: compute nothing twice, however short memory is)",
                      fmt::join(forbidden_words(), ", ")))
      ->delimiter(',');
  command.add_option("--ratio", pins.ratio, "Fix the devices' shares of the work, in rank order: 2,1,1")
      ->delimiter(',');
  command.add_option_function<std::string>(
      "--mesh", [&pins](const std::string& text) { pins.mesh = parse_mesh(text); },
      "Fix the mesh by the sizes of its axes: 8 or 2x4");
  return command.get_options([&](const CLI::Option* option) { return option != command.get_help_ptr(); });
}

}  // namespace hetsynth::cli
