// hetsynth inspect: the generated source of a device on standard output, or all of them as a project that builds
// outside of hetsynth.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/pipeline_options.h"
#include "codegen/standalone.h"
#include "pipeline/pipeline.h"

namespace hetsynth::cli {
namespace {

void print_rank(const DeviceProgram& program, bool json) {
  if (!json) {
    for (const SourceFile& file : program.files) fmt::print("// ---- {}\n{}", file.name, file.text);
    return;
  }
  nlohmann::ordered_json out{{"rank", program.rank}, {"files", nlohmann::ordered_json::array()}};
  for (const SourceFile& file : program.files) out["files"].push_back({{"name", file.name}, {"text", file.text}});
  fmt::print("{}\n", out.dump(2));
}

}  // namespace

Command add_inspect(CLI::App& app) {
  struct Options {
    Compilation compilation;
    PipelineOutput pipeline;
    int rank = 0;
    std::string out;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("inspect", "Show the generated source of a device");
  add_model_options(*command, options->compilation.model_options);
  command->add_option("plan", options->compilation.plan_file, "Plan file")->required();
  CLI::Option* rank = command->add_option("--rank", options->rank, "Which device, counted from 0");
  rank->check(at_least(0))->type_name("N");
  command->add_option("--out", options->out, "Write all ranks as a CMake project into this directory instead")
      ->type_name("DIR")
      ->excludes(rank);
  command->add_flag("--json", options->json, "Report as JSON: names and texts of the files");
  add_pipeline_options(*command, options->pipeline);
  options->compilation.devices_of_plan = true;
  return [options]() {
    Compilation& c = options->compilation;
    run_pipeline(c, "generate", options->pipeline);
    if (!options->out.empty()) {
      write_standalone_project(options->out, c.reference, c.plan.program, c.cluster);
      if (options->json)
        fmt::print("{}\n", nlohmann::ordered_json{{"folder", options->out}, {"ranks", c.programs.size()}}.dump(2));
      else
        fmt::print("wrote the sources of {} ranks to {}\n", c.programs.size(), options->out);
      return ExitCode::done;
    }
    if (options->rank >= int(c.programs.size()))
      throw UserError({.tag = "--rank",
                       .message = "the plan has no such device",
                       .expected = fmt::format("a number from 0 to {}", c.programs.size() - 1),
                       .found = std::to_string(options->rank)},
                      ExitCode::usage);
    print_rank(c.programs[options->rank], options->json);
    return ExitCode::done;
  };
}

}  // namespace hetsynth::cli
