// hetsynth evaluate: the loss of a checkpoint over data.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/given.h"
#include "cli/job_command.h"
#include "cli/model_data.h"
#include "cli/pipeline_options.h"
#include "cli/prepare_plan.h"
#include "dsl/base/counted.h"
#include "runtime/rank/interrupt.h"
#include "runtime/training/checkpoint.h"
#include "runtime/training/evaluate.h"

namespace hetsynth::cli {
namespace {

struct EvaluateOptions {
  const CLI::App* command = nullptr;
  Compilation compilation;
  std::string checkpoint;
  DataOptions data;
  int64_t batches = 0;
  double patience = 6;
  bool other_tokenizer = false;  ///< than the checkpoint's
  bool unverified = false;
  bool json = false;
};

std::string json_of(const EvaluateOptions& options, const CheckpointInfo& info, const Evaluation& found) {
  nlohmann::ordered_json out{
      {"checkpoint", options.checkpoint}, {"next_step", info.next_step}, {"loss", found.loss},
      {"batches", found.batches},         {"samples", found.samples},    {"seconds", found.seconds},
      {"complete", found.complete}};
  for (const auto& [name, value] : found.metrics) out["metrics"][name] = value;
  return out.dump(2) + "\n";
}

std::string text_of(const CheckpointInfo& info, const BatchSource& data, const Evaluation& found) {
  std::string metrics;
  for (const auto& [name, value] : found.metrics) metrics += fmt::format(", {} {:.4f}", name, value);
  return fmt::format("{}loss {:.4f}{} after {} steps, over {} samples ({}) of {}, in {:.1f} s\n",
                     found.complete ? "" : "stopped early: ", found.loss, metrics, info.next_step, found.samples,
                     counted(found.batches, "batch", "batches"), data.description(), found.seconds);
}

ExitCode execute(EvaluateOptions& options, Job* job) {
  Compilation& c = options.compilation;
  ask_for_evaluation(c, job);
  run_pipeline(c, "differentiate", {});
  options.data = with_default_data(c.reference, options.data);
  const CheckpointInfo info = check_for_evaluation(options.checkpoint, c.reference);
  options.data.seed = info.seed;  // of which batches it takes if not all: the same as `run --valid`
  const std::unique_ptr<BatchSource> data = open_data(c.reference, options.data);
  if (!options.other_tokenizer) check_tokenizer_of(options.checkpoint, info.tokenizer, data->origin(), "the data");
  const int64_t batches = batches_to_evaluate(c.reference, *data, options.batches);
  if (job) {
    std::vector<GivenValue> given = given_to_command(*options.command, c);
    given.push_back({"checkpoint", checkpoint_fingerprint(options.checkpoint), options.checkpoint});
    given.push_back({"data", "fingerprint " + data->fingerprint(), data->description()});
    given.push_back({"number of batches", fmt::format("{}", batches)});
    agree(*job, given);
  }
  c.check_work = usual_check_work;
  // What is printed for people would stand before the record.
  if (const auto ended =
          prepare_plan(c, {}, {.unverified = options.unverified, .brief = "evaluation", .silent = options.json}, job))
    return *ended;
  LaunchOptions launching = launch_options(c, info.seed, job);
  launching.parameters_follow = true;
  const std::unique_ptr<Executor> executor = launch(c.reference, c.plan.program, c.cluster, launching);
  load_for_evaluation(options.checkpoint, *executor);
  const InterruptGuard interrupt;
  const Evaluation found = evaluate(*executor, *data, batches);
  fmt::print("{}", options.json ? json_of(options, info, found) : text_of(info, *data, found));
  return found.complete ? ExitCode::done : stopped_early;
}

}  // namespace

Command add_evaluate(CLI::App& app) {
  auto options = std::make_shared<EvaluateOptions>();
  CLI::App* command = app.add_subcommand(
      "evaluate", "Measure the loss of a checkpoint over data, each sample once, without dropout and without training");
  add_model_options(*command, options->compilation.model_options);
  command->add_option("checkpoint", options->checkpoint, "Checkpoint, as run --checkpoint writes it")->required();
  add_cluster_or_cores(*command, options->compilation);
  add_planning_options(*command, options->compilation);
  command->add_option("--data", options->data.path, "File or folder, as for run; default: as for run")
      ->type_name("DATA");
  command->add_option("--batches", options->batches, "Most batches; 0: all of the data")
      ->capture_default_str()
      ->check(at_least(0));
  command->add_flag("--other-tokenizer", options->other_tokenizer,
                    "Go on although the checkpoint was trained on tokens of another tokenizer");
  command->add_flag("--unverified", options->unverified, "Go on even if the plan is not proved");
  command->add_flag("--json", options->json, "Report as JSON");
  add_patience(*command, options->patience);
  options->command = command;
  return [options]() {
    return run_in_job([&](Job* job) { return execute(*options, job); }, with_patience(options->patience));
  };
}

}  // namespace hetsynth::cli
