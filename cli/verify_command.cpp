// hetsynth verify: a proof that a plan computes what the model says, or a counterexample. Takes plans edited by hand.
#include <fmt/format.h>

#include "cli/pipeline.h"
#include "cli/report.h"

namespace hetsynth::cli {

ExitCode exit_code(Verdict verdict) {
  switch (verdict) {
    case Verdict::proved:
      return ExitCode::done;
    case Verdict::refuted:
      return ExitCode::refuted;
    case Verdict::unknown:
      return ExitCode::unknown;
  }
  return ExitCode::unknown;
}

Command add_verify(CLI::App& app) {
  struct Options {
    Compilation compilation;
    PipelineOptions pipeline;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("verify", "Prove that a plan computes what the model says, or show where it does not");
  add_model_options(*command, options->compilation.model_options);
  command->add_option("plan", options->compilation.plan_file, "Plan file")->required();
  command
      ->add_option("--time-limit", options->compilation.verify_seconds, "Seconds after which the answer is 'unknown'")
      ->check(above_zero())
      ->type_name("SECONDS");
  command->add_flag("--json", options->json, "Report as JSON");
  add_pipeline_options(*command, options->pipeline);
  options->compilation.devices_of_plan = true;
  return [options]() {
    Compilation& c = options->compilation;
    run_pipeline(c, "verify", options->pipeline);
    fmt::print("{}", options->json ? verification_json(c.verification)
                                   : verification_text(c.verification, c.reference, c.plan.program));
    return exit_code(c.verification.verdict);
  };
}

}  // namespace hetsynth::cli
