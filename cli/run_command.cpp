// hetsynth run: plan, verify, generate, compile, train; then a line of text, if the model offers logits of text.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <optional>

#include "cli/balance.h"
#include "cli/given.h"
#include "cli/job_command.h"
#include "cli/model_data.h"
#include "cli/not_finite.h"
#include "cli/report.h"
#include "cli/resume.h"
#include "cli/run_options.h"
#include "dsl/transform/differentiate.h"
#include "runtime/cuda/cuda_backend.h"
#include "runtime/launch.h"
#include "runtime/processes/placement.h"
#include "runtime/training/text_generation.h"
#include "synth/planner/synthesize.h"

namespace hetsynth::cli {

ExitCode exit_code(Verdict verdict);  // verify_command.cpp

namespace {

const std::map<std::string, BalanceMode> balance_modes = {
    {"off", BalanceMode::off}, {"shares", BalanceMode::shares}, {"plan", BalanceMode::plan}};

/// Says what the proof says, and whether to go on.
bool proof_allows(const RunOptions& options) {
  const Compilation& c = options.compilation;
  fmt::print("{}", verify_text(c));
  if (c.verification.verdict == Verdict::proved) return true;
  if (!options.unverified) {
    std::fflush(stdout);
    fmt::print(stderr,
               "hetsynth: this plan is not proved to compute the model, so it is not run; --unverified runs it all the "
               "same\n");
    return false;
  }
  fmt::print("WARNING: running a plan that is NOT PROVED (--unverified): the numbers below may be wrong\n");
  return true;
}

/// Holds the generated source against the plan. A text that differs is not run; one that has something the check does
/// not know is, with a word.
bool source_allows(RunOptions& options) {
  Compilation& c = options.compilation;
  run_pipeline(c, c.verification.verdict == Verdict::proved ? "check" : "generate", options.pipeline);
  if (c.verification.verdict != Verdict::proved) return true;
  fmt::print("{}", source_check_text(c.source_check, c.reference));
  return c.source_check.verdict != Verdict::refuted || options.unverified;
}

/// Samples from the model traced anew at batch 1, on one device, with the trained parameters.
void print_sample(RunOptions& options, const Executor& trained) {
  Compilation& c = options.compilation;
  if (options.sample_bytes <= 0 || !reads_text(c.reference)) return;
  bool has_logits = false;
  for (const NamedOutput& output : c.reference.outputs) has_logits = has_logits || output.name == "logits";
  if (!has_logits) return;
  auto settings = model_settings(c);
  settings["batch"] = "1";
  settings.erase("micro_batches");
  settings.erase("turns");
  c.trace.reset();
  c.trace = c.model->trace(settings);
  Program forward = restrict_to_output(differentiate(*c.trace), "logits");
  Cluster one = local_cluster(1);
  std::unique_ptr<Executor> sampler =
      launch(forward, single_device_plan(forward, one).program, one, {.executor = {.seed = options.data.seed}});
  copy_parameters(trained, *sampler);
  SampleOptions sample{options.prompt, options.sample_bytes, options.temperature, options.data.seed};
  fmt::print("sample: {}\n", printable(options.prompt + sample_text(*sampler, text_model(forward), sample)));
}

/// One step more, measured call by call.
void print_profile(Executor& executor, const BatchSource& data, int64_t step, const std::vector<std::string>& names) {
  const std::vector<std::vector<TimedWork>> work = executor.profile(step, data);
  for (size_t rank = 0; rank < work.size(); ++rank)
    if (work[rank].empty())
      fmt::print("profile of {}: nothing is measured on a cpu device, or on one of another process\n", names[rank]);
    else
      fmt::print("profile of {}: {}", names[rank], profile_text(work[rank]));
}

/// A cluster of GPUs alone, on a machine that can run none, is refused before planning, which may take minutes.
void require_some_device(const std::string& cluster_file) {
  if (cluster_file.empty()) return;
  const Cluster cluster = load_cluster(cluster_file);
  if (std::ranges::any_of(cluster.devices, [](const Device& device) { return device.kind == DeviceKind::cpu; })) return;
  cuda::require_cuda(cuda::this_machine(), {cluster.devices.front()});
}

/// Plans, and proves and checks what is planned. Where there are several processes the first one does, and all others
/// take its plan. The exit code of a run that ends here; none: go on.
std::optional<ExitCode> prepare_plan(RunOptions& options, Job* job) {
  Compilation& c = options.compilation;
  if (job && !job->leads()) {
    c.plan_json = job->exchange("").front();
    if (c.plan_json.empty()) return ExitCode::done;  // the first process says why
    run_pipeline(c, "synthesize", options.pipeline);
    return std::nullopt;
  }
  run_pipeline(c, "verify", options.pipeline);
  fmt::print("{}", plan_text(c.plan, c.reference, c.left_out));
  const bool proved = proof_allows(options);
  const bool allowed = proved && source_allows(options);
  if (job) job->exchange(allowed ? plan_to_json(c.plan, c.reference) : "");
  if (!proved) return exit_code(c.verification.verdict);
  if (!allowed) return exit_code(c.source_check.verdict);
  return std::nullopt;
}

ExitCode execute(RunOptions& options, Job* job) {
  Compilation& c = options.compilation;
  if (job) c.default_devices = job->count();
  c.check_work = usual_check_work;
  require_some_device(c.cluster_file);
  run_pipeline(c, "differentiate", options.pipeline);
  // Data that cannot be used are told of now, not after a minute of planning.
  options.data = with_default_data(c.reference, options.data);
  std::optional<CheckpointInfo> resumed;
  if (!options.resume.empty()) resumed = continue_checkpoint(options);
  std::unique_ptr<BatchSource> data = open_data(c.reference, options.data);
  if (resumed) check_data_of(*resumed, options, *data);
  if (job) agree_with_others(*job, options, resumed, *data);
  check_targets(options, job);
  if (const auto ended = prepare_plan(options, job)) return *ended;
  LaunchOptions launching{.executor = {.seed = options.data.seed},
                          .programs = c.programs.empty() ? nullptr : &c.programs};
  if (job) {
    launching.executor.job = job;
    launching.executor.process_of = place_ranks(c.cluster, job->count());
    launching.executor.threads.threads_of_rank = threads_of_ranks(c.cluster, *job, launching.executor.process_of);
  }
  // A step that takes ten times as long as planned is worth a word; one on a busy machine is not.
  launching.executor.threads.quiet_seconds = std::max(60.0, 10 * c.plan.prediction.step_seconds);
  LaunchReport launched;
  std::unique_ptr<Executor> executor = launch(c.reference, c.plan.program, c.cluster, launching, &launched);
  fmt::print("generated in {}, compiled in {} ({} compiled, {} from the cache); data: {}\n",
             seconds_text(launched.generate_seconds), seconds_text(launched.compile_seconds), launched.compiled,
             launched.from_cache, data->description());
  if (resumed && load_checkpoint(options.resume, *executor) != *resumed)
    throw UserError({.where = {options.resume},
                     .tag = "checkpoint",
                     .message = "the file was replaced while the run was being planned",
                     .mend = "run the command again; let no other run write the checkpoint that this one continues"});
  std::fflush(stdout);
  options.train.out = &std::cout;
  options.train.progress = progress_for_standard_output();
  options.train.explain = [&](const StepReport& failed) {
    return explain_not_finite(*executor, *data, failed, {options.train.first_step, options.resume, failed.seconds});
  };
  std::optional<Balance> balance;
  if (options.balance != BalanceMode::off) {
    balance.emplace(options, *executor, launching.executor, job);
    options.train.between_steps = [&](const StepReport& step) { return balance->after(step); };
    options.train.before_writing = [&] { balance->settle(); };
  }
  const TrainReport report = train_to_the_end(options, *executor, *data);
  balance.reset();
  fmt::print("{}\n", summary(report));
  if (options.profile)
    print_profile(*executor, *data, options.train.first_step + options.train.steps, executor->device_names());
  if (report.interrupted) return stopped_early;
  print_sample(options, *executor);
  return ExitCode::done;
}

}  // namespace

Command add_run(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand(
      "run",
      "Plan, verify, generate, compile and train; under mpirun with a process for each device or host of the plan");
  add_model_options(*command, options->compilation.model_options);
  command->add_option("--cluster", options->compilation.cluster_file,
                      "Cluster file (TOML); default: the cores of this machine as equal devices");
  command
      ->add_option("--without", options->compilation.without,
                   "Hosts or devices of the cluster file that are left out, as those that are lost")
      ->type_name("NAME");
  CLI::Option* plan =
      command->add_option("--plan", options->compilation.plan_file, "Run this plan instead of synthesizing one");
  // A plan that is given is run as it is.
  for (CLI::Option* option : add_planning_options(*command, options->compilation)) plan->excludes(option);
  command
      ->add_option_function<std::string>(
          "--balance", [options](const std::string& word) { options->balance = balance_modes.at(word); },
          "When devices become slower or faster while training: shares, give them other shares of the same program; "
          "plan, plan anew where that is faster; off, go on as planned. Losses are those of the division at hand")
      ->type_name("off|shares|plan")
      ->default_str("off")
      ->check(CLI::IsMember({"off", "shares", "plan"}));
  command->add_flag("--unverified", options->unverified, "Run even if the plan is not proved");
  command->add_option("--steps", options->train.steps, "Training steps")->capture_default_str()->check(at_least(0));
  CLI::Option* seed = command->add_option("--seed", options->data.seed, "Seed of parameters, data order and dropout")
                          ->capture_default_str();
  command->add_option(
      "--data", options->data.path,
      "File or folder, perhaps after its format and a colon (docs/data.md); default for models of text: " +
          std::string(default_text) + ", for others samples made up");
  command->add_option("--log-json", options->train.log_json, "Append one JSON object per step to this file")
      ->type_name("FILE");
  command
      ->add_option("--checkpoint", options->train.checkpoint,
                   "Write parameters and optimizer state to this safetensors file at the end")
      ->type_name("FILE");
  command
      ->add_option("--checkpoint-every", options->train.checkpoint_every, "And each so many steps; 0: only at the end")
      ->capture_default_str()
      ->check(at_least(0));
  command
      ->add_option("--resume", options->resume,
                   "Continue this checkpoint, with its seed and from its step; --steps counts the steps to come")
      ->type_name("FILE");
  command->add_flag("--new-data", options->new_data,
                    "With --resume: the data are others than the checkpoint's; begin at their first sample");
  command->add_option("--sample", options->sample_bytes, "Bytes of text to sample after training; 0: none")
      ->capture_default_str();
  command->add_flag("--profile", options->profile,
                    "Then run one step more and print where its time goes on each GPU, by kernel");
  command->add_option("--prompt", options->prompt, "What the sample begins with")->capture_default_str();
  command->add_option("--temperature", options->temperature, "Of the sample; 0: always the likeliest byte")
      ->capture_default_str()
      ->check(at_least(0));
  command
      ->add_option("--patience", options->patience,
                   "Under mpirun: seconds after which a process that nothing is heard of counts as dead")
      ->capture_default_str()
      ->check(at_least(1));
  add_pipeline_options(*command, options->pipeline);
  return [options, seed]() {
    options->seed_given = seed->count() > 0;
    return run_in_job([&](Job* job) { return execute(*options, job); },
                      {.patience = std::chrono::milliseconds(int64_t(1000 * std::min(options->patience, 1e6)))});
  };
}

}  // namespace hetsynth::cli
