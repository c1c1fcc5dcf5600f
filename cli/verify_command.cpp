// hetsynth verify: a proof that a plan computes what the model says, or a counterexample. Takes plans edited by hand.
#include <fmt/format.h>

#include <filesystem>

#include "cli/model_data.h"
#include "cli/pipeline_options.h"
#include "dsl/base/file.h"
#include "dsl/base/output_file.h"
#include "pipeline/pipeline.h"
#include "pipeline/report.h"
#include "runtime/launch.h"
#include "runtime/training/numeric_check.h"
#include "verify/certificate.h"

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

namespace {

/// More is not waited for.
constexpr double longest_numeric_check_seconds = 1800;

const OutputKind certificate_kind{"certificate",
                                  begins_with("{", {"\"verdict\":", "\"model_hash\":", "\"plan_hash\":"})};

struct VerifyCommandOptions {
  Compilation compilation;
  PipelineOutput pipeline;
  std::string certificate_out;
  std::string source_folder;
  bool source = false;
  bool numeric = false;
  DataOptions data;  ///< of the numeric check
  bool json = false;
};

/// The host sources of all ranks, from a folder that `inspect --out` wrote instead of from the generator.
void read_sources(const std::string& folder, std::vector<DeviceProgram>& programs) {
  for (DeviceProgram& program : programs)
    for (SourceFile& file : program.files) {
      std::string path = (std::filesystem::path(folder) / file.name).string();
      file.text = read_file(path, "generated source", int64_t(256) << 20);
    }
}

void generate_or_read(VerifyCommandOptions& options) {
  Compilation& c = options.compilation;
  run_pipeline(c, "generate", options.pipeline);
  if (!options.source_folder.empty()) read_sources(options.source_folder, c.programs);
}

/// The verdict of source checking, printed.
Verdict check_sources(VerifyCommandOptions& options) {
  Compilation& c = options.compilation;
  c.source_check = check_foreign(c.reference, c.plan.program, c.programs);
  if (!options.json) fmt::print("{}", source_check_text(c.source_check, c.reference));
  return c.source_check.verdict;
}

/// One step of the generated programs beside the interpreter, printed.
NumericCheck check_numbers(VerifyCommandOptions& options) {
  Compilation& c = options.compilation;
  const double seconds = numeric_check_seconds(c.reference);
  if (seconds > longest_numeric_check_seconds)
    throw UserError({.where = {c.plan_file},
                     .tag = "verify --numeric",
                     .message = "the model is too large for the reference interpreter",
                     .expected = fmt::format("at most {}", seconds_text(longest_numeric_check_seconds)),
                     .found = fmt::format("about {}", seconds_text(seconds)),
                     .mend = "plan the model with smaller settings (--set), and check that plan"},
                    ExitCode::usage);
  const std::unique_ptr<BatchSource> data = open_data(c.reference, with_default_data(c.reference, options.data));
  const std::unique_ptr<Executor> executor = launch(c.reference, c.plan.program, c.cluster,
                                                    {.executor = {.seed = options.data.seed}, .programs = &c.programs});
  const NumericCheck check = check_numerically(*executor, *data);
  if (!options.json) fmt::print("{}", numeric_check_text(check));
  return check;
}

ExitCode execute(VerifyCommandOptions& options) {
  Compilation& c = options.compilation;
  if (!options.certificate_out.empty())
    check_output(options.certificate_out, certificate_kind, std::vector{c.model_options.file, c.plan_file});
  run_pipeline(c, "verify", options.pipeline);
  Verdict verdict = c.verification.verdict;
  if (!options.json) fmt::print("{}", verify_text(c));
  const bool source = verdict == Verdict::proved && options.source;
  if (source || (options.numeric && verdict != Verdict::refuted)) generate_or_read(options);
  if (source) verdict = check_sources(options);
  // Source that is known to be wrong may write anywhere: it is not run.
  const bool numeric = options.numeric && verdict != Verdict::refuted;
  std::optional<NumericCheck> numbers;
  if (numeric) {
    numbers = check_numbers(options);
    if (!numbers->agrees()) verdict = Verdict::refuted;
  }
  if (options.json)
    fmt::print("{}",
               verification_json(c.verification, source ? &c.source_check : nullptr, numbers ? &*numbers : nullptr));
  if (c.verification.verdict == Verdict::proved && !options.certificate_out.empty()) {
    Certificate certificate = make_certificate(c.reference, c.plan.program, c.verification);
    write_output(options.certificate_out, certificate_kind, certificate_to_json(certificate));
    if (!options.json) fmt::print("certificate: {}\n", options.certificate_out);
  }
  return exit_code(verdict);
}

}  // namespace

Command add_verify(CLI::App& app) {
  auto options = std::make_shared<VerifyCommandOptions>();
  Compilation& c = options->compilation;
  CLI::App* command =
      app.add_subcommand("verify", "Prove that a plan computes what the model says, or show where it does not");
  add_model_options(*command, c.model_options);
  command->add_option("plan", c.plan_file, "Plan file")->required();
  command->add_option("--time-limit", c.verify_seconds, "Seconds after which the answer is 'unknown'")
      ->check(above_zero())
      ->type_name("SECONDS");
  command
      ->add_option("--memory-limit", c.verify_bytes,
                   "Memory the proof may take, for example 2GB; beyond it the answer is 'unknown'")
      ->transform(CLI::AsSizeValue(false))
      ->type_name("BYTES");
  auto* out =
      command->add_option("-o,--output", options->certificate_out, "Write the proof as a certificate to this file")
          ->type_name("FILE");
  command->add_option("--cert", c.certificate_file, "Check this certificate instead of proving anew")
      ->type_name("FILE")
      ->excludes(out);
  auto* source =
      command->add_flag("--source", options->source, "Hold the generated source of every rank against the plan");
  command
      ->add_option("--source-dir", options->source_folder,
                   "The same for the sources in this folder, as 'inspect --out' wrote them and people edited them")
      ->type_name("DIR")
      ->check(CLI::ExistingDirectory)
      ->each([options = options.get()](const std::string&) { options->source = true; })
      ->excludes(source);
  auto* numeric = command->add_flag("--numeric", options->numeric,
                                    "Run one step of the generated source on all ranks of this machine, and hold every "
                                    "tensor against the interpreter");
  command->add_option("--seed", options->data.seed, "Seed of parameters, data and dropout of --numeric")
      ->capture_default_str()
      ->needs(numeric);
  command->add_option("--data", options->data.path, "Data of --numeric, as of run (docs/data.md)")->needs(numeric);
  command->add_flag("--json", options->json, "Report as JSON");
  add_pipeline_options(*command, options->pipeline);
  c.devices_of_plan = true;
  return [options]() { return execute(*options); };
}

}  // namespace hetsynth::cli
