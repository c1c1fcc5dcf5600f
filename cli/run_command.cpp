// hetsynth run: plan, verify, generate, compile, train; then a line of text, if the model offers logits of text.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string_view>

#include "cli/balance.h"
#include "cli/balance_words.h"
#include "cli/given.h"
#include "cli/job_command.h"
#include "cli/job_file.h"
#include "cli/leaving_out.h"
#include "cli/measured_trace.h"
#include "cli/model_data.h"
#include "cli/not_finite.h"
#include "cli/pipeline_options.h"
#include "cli/prepare_plan.h"
#include "cli/resume.h"
#include "cli/run_options.h"
#include "cli/run_report.h"
#include "cli/trace_events.h"
#include "cli/validation.h"
#include "dsl/base/output_file.h"
#include "dsl/transform/generation.h"
#include "pipeline/evaluation.h"
#include "pipeline/report.h"
#include "runtime/cuda/cuda_backend.h"
#include "runtime/launch.h"
#include "runtime/training/text_generation.h"
#include "runtime/weights/weight_sources.h"
#include "synth/planner/synthesize.h"

namespace hetsynth::cli {

namespace {

const std::map<std::string, BalanceMode> balance_modes = {{"off", BalanceMode::off},
                                                          {"shares", BalanceMode::shares},
                                                          {"plan", BalanceMode::plan},
                                                          {"lossy", BalanceMode::lossy}};

/// Whether a text can be sampled from the model: it reads text, and marks its logits.
bool gives_text(const Program& program) {
  return reads_text(program) &&
         std::ranges::any_of(program.outputs, [](const NamedOutput& output) { return output.name == logits_output; });
}

/// Throws UserError (usage) if it is asked for how a text is sampled where none is.
void check_sample(const RunOptions& options, const Program& program) {
  const bool gives = gives_text(program);
  for (const char* option : {"--sample", "--prompt", "--temperature"}) {
    if (options.command->count(option) == 0 || (gives && options.sample_bytes > 0)) continue;
    if (std::string_view(option) == "--sample" && options.sample_bytes <= 0) continue;
    throw UserError(
        {.tag = "run",
         .message = fmt::format("{} is of the text that is sampled after training, and there is none", option),
         .expected = gives ? "--sample with a number above 0"
                           : "a model that reads text (text_batch, text_next_byte) and has output(\"logits\", x)",
         .mend = fmt::format("leave {} out", option)},
        ExitCode::usage);
  }
}

/// Samples from the model traced anew at batch 1, on one device, with the trained parameters; nothing if it gives no
/// text.
std::string sampled(const RunOptions& options, const Executor& trained) {
  const Compilation& c = options.compilation;
  if (options.sample_bytes <= 0 || !gives_text(c.reference)) return "";
  auto settings = evaluation_settings(c);
  // Of a batch that the model fixes the first sample is used.
  if (std::ranges::find(c.reference.options, "batch", &OptionValue::name) != c.reference.options.end())
    settings["batch"] = "1";
  const GenerationProgram program = window_program(logits_program(*c.model->trace(settings)));
  Cluster one = local_cluster(1);
  std::unique_ptr<Executor> sampler = launch(program.program, single_device_plan(program.program, one).program, one,
                                             {.executor = {.seed = options.data.seed}, .parameters_follow = true});
  copy_parameters(trained, *sampler);
  SampleOptions sample{options.prompt, options.sample_bytes, options.temperature, options.data.seed};
  return options.prompt + sample_text(*sampler, program, sample);
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

/// Writes the measured timeline of one of the last steps. All processes call it alike.
void write_trace(const RunOptions& options, const Executor& executor) {
  const std::optional<MeasuredStep> measured = executor.measured_step();
  if (!executor.leads()) return;
  if (!measured) {
    fmt::print("no step was done: no trace was written\n");
    return;
  }
  write_output(options.trace, trace_kind, measured_trace(options.compilation, *measured));
  fmt::print("{}trace written to {}\n", measured_text(options.compilation, *measured), options.trace);
}

ExitCode execute(RunOptions& options, Job* job) {
  TextAside aside(options.json && (!job || job->leads()));
  // A reader of the output that ends must not end the run with it: writing then fails, and the run saves and stops. A
  // handler, unlike SIG_IGN, is not inherited by programs that are started.
  ::signal(SIGPIPE, [](int) {});
  check_options(options);
  check_leave_out(options);
  Compilation& c = options.compilation;
  if (job) c.default_devices = job->count();
  c.check_work = usual_check_work;
  const bool is_traced = !options.trace.empty(), is_lossy = options.balance == BalanceMode::lossy;
  c.marked = is_traced || is_lossy;
  if (is_traced && !c.cluster_file.empty()) check_traceable(given_cluster(c));
  require_some_device(c.cluster_file);
  run_pipeline(c, "differentiate", options.pipeline);
  check_sample(options, c.reference);
  if (is_lossy) check_has_columns(c);
  options.program = hash_text(c.reference);
  // Data that cannot be used are told of now, not after a minute of planning.
  options.data = with_default_data(c.reference, options.data);
  std::optional<CheckpointInfo> resumed;
  if (!options.resume.empty()) resumed = continue_checkpoint(options);
  std::unique_ptr<BatchSource> data = open_data(c.reference, options.data);
  if (resumed && !options.other_tokenizer)
    check_tokenizer_of(options.resume, resumed->tokenizer, data->origin(), "the data");
  if (resumed) options.train.tokenizer = resumed->tokenizer;
  if (resumed) options.train.left_out = resumed->left_out;
  if (resumed && !options.new_data) check_data_of(options.resume, *resumed, *data);
  std::optional<WeightSources> weights;
  if (!options.init_from.empty()) {
    weights.emplace(c.reference, options.init_from, options.map);
    if (!options.other_tokenizer) weights->check_tokenizer(data->origin(), "the data");
    fmt::print("{}", weights->text());
  }
  std::optional<Validation> validation;
  if (!options.validation.data.empty()) {
    validation.emplace(options, job);
    if (!options.other_tokenizer)
      check_same_origin(options.validation.data,
                        "the data of --valid are tokens of another tokenizer than those of --data", data->origin(),
                        validation->data().origin(),
                        "tokenize both with one; --other-tokenizer goes on all the same, where that is meant");
  }
  if (job)
    agree_with_others(*job, options, resumed, weights ? weights->fingerprint() : "", *data,
                      validation ? &validation->data() : nullptr);
  check_targets(options, job);
  if (const auto ended = prepare_plan(c, options.pipeline, {.unverified = options.unverified}, job)) return *ended;
  if (is_lossy) check_lossy_devices(options);
  LaunchOptions launching = launch_options(c, options.data.seed, job);
  launching.executor.threads.quiet_seconds = quiet_seconds(c.plan);
  launching.executor.traced = is_traced;
  launching.executor.may_leave_out = is_lossy;
  launching.parameters_follow = resumed.has_value();
  RunFacts facts{.launched = {}, .data = data->description(), .sample = {}};
  LaunchReport& launched = facts.launched;
  std::unique_ptr<Executor> executor = launch(c.reference, c.plan.program, c.cluster, launching, &launched);
  fmt::print("generated in {}, compiled in {} ({} compiled, {} from the cache); data: {}\n",
             seconds_text(launched.generate_seconds), seconds_text(launched.compile_seconds), launched.compiled,
             launched.from_cache, facts.data);
  if (weights) weights->take(*executor);
  if (resumed && load_checkpoint(options.resume, *executor) != *resumed)
    throw UserError({.where = {options.resume},
                     .tag = "checkpoint",
                     .message = "the file was replaced while the run was being planned",
                     .mend = "run the command again; let no other run write the checkpoint that this one continues"});
  if (validation) {
    if (const auto ended = validation->prepare(*executor, launching.executor.threads.quiet_seconds)) return *ended;
    options.train.validation.evaluate = [&] { return validation->run(); };
    options.train.validation.best_before = best_before(options);
  }
  std::fflush(stdout);
  options.train.out = &std::cout;
  options.train.progress = progress_for_standard_output();
  options.train.plan = [&] { return plan_line(c.plan, c.turns); };
  options.train.explain = [&](const StepReport& failed) {
    return explain_not_finite(*executor, *data, failed, {options.train.first_step, options.resume, failed.seconds});
  };
  options.train.explain_overflow = [&](const StepReport& failed, const OptimizerReport& told) {
    return explain_overflow(*executor, *data, failed, told);
  };
  std::optional<Balance> balance;
  if (is_lossy) {
    fmt::print(
        "lossy: a device that is slow may leave out columns of its products; losses are then not those of the "
        "model as it is written\n");
    std::fflush(stdout);
  }
  if (!options.leave_out.empty()) {
    executor->leave_out(left_out_by_hand(options));
    fmt::print("lossy: left out, as --leave-out says: {}\n",
               text_of_left_out(executor->left_out(), executor->device_names()));
  } else if (options.balance != BalanceMode::off) {
    balance.emplace(options, *executor, launching.executor, job);
    options.train.between_steps = [&](const StepReport& step) { return balance->after(step); };
    options.train.before_writing = [&] { balance->settle(); };
  }
  if (!options.train.checkpoint.empty() && executor->leads())
    write_output(job_of_checkpoint(options.train.checkpoint), job_file_kind, options.job);
  const TrainReport report = train_to_the_end(options, *executor, *data);
  balance.reset();
  fmt::print("{}\n", summary(report));
  if (is_traced) write_trace(options, *executor);
  if (options.profile)
    print_profile(*executor, *data, options.train.first_step + options.train.steps, executor->device_names());
  if (!report.interrupted) facts.sample = sampled(options, *executor);
  if (!facts.sample.empty()) fmt::print("sample: {}\n", printable(facts.sample));
  aside.end();
  if (options.json) fmt::print("{}", run_json(options, report, facts));
  return report.interrupted ? stopped_early : ExitCode::done;
}

}  // namespace

Command add_run(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand(
      "run",
      "Plan, verify, generate, compile and train; under mpirun with a process for each device or host of the plan");
  add_model_options(*command, options->compilation.model_options);
  add_cluster_or_cores(*command, options->compilation);
  command
      ->add_option("--without", options->compilation.without,
                   "Hosts or devices of the cluster file that are left out, as those that are lost")
      ->type_name("NAME");
  CLI::Option* plan =
      command->add_option("--plan", options->compilation.plan_file, "Run this plan instead of synthesizing one");
  // A plan that is given is run as it is.
  for (CLI::Option* option : add_planning_options(*command, options->compilation)) plan->excludes(option);
  CLI::Option* balance =
      command
          ->add_option_function<std::string>(
              "--balance", [options](const std::string& word) { options->balance = balance_modes.at(word); },
              "When devices become slower or faster while training: shares, give them other shares of the same "
              "program; plan, plan anew where that is faster; lossy, besides have them leave out a part of what they "
              "multiply; off, go on as planned. Losses are those of the division at hand")
          ->type_name("off|shares|plan|lossy")
          ->default_str("off")
          ->check(CLI::IsMember({"off", "shares", "plan", "lossy"}));
  command
      ->add_option("--leave-out", options->leave_out,
                   "With --balance lossy: the device leaves out this part of the columns of its products from the "
                   "twelfth step on, and nothing else is balanced (repeatable)")
      ->type_name("DEVICE=PART");
  command->add_flag("--unverified", options->unverified, "Run even if the plan is not proved");
  command->add_option("--steps", options->train.steps, "Training steps")->capture_default_str()->check(at_least(0));
  CLI::Option* seed = command->add_option("--seed", options->data.seed, "Seed of parameters, data order and dropout")
                          ->capture_default_str();
  command->add_option("--data", options->data.path,
                      "File, folder or quoted pattern of parts, perhaps after its format and a colon (docs/data.md); "
                      "default for models of text: " +
                          std::string(default_text) + ", for others samples made up");
  command->add_option("--log-json", options->train.log_json, "Append one JSON object per step to this file")
      ->type_name("FILE");
  CLI::Option* trace =
      command
          ->add_option(
              "--trace", options->trace,
              "Measure when each device does what in a step, and write one of the last as trace events (JSON), "
              "beside the planned one, for Perfetto or chrome://tracing")
          ->type_name("FILE");
  trace->excludes(balance);
  command
      ->add_option("--checkpoint", options->train.checkpoint,
                   "Write parameters and optimizer state to this safetensors file at the end")
      ->type_name("FILE");
  command
      ->add_option("--checkpoint-every", options->train.checkpoint_every, "And each so many steps; 0: only at the end")
      ->capture_default_str()
      ->check(at_least(0));
  command
      ->add_option_function<std::string>(
          "--keep", [options](const std::string& text) { options->train.keep = keep_rule(text); },
          "Checkpoints that stay beside the newest: best, that with the lowest validation loss, as FILE.best; a "
          "number, "
          "so many of the last, as FILE.STEP; last, none")
      ->type_name("last|best|N")
      ->default_str("last");
  ValidationDataOptions& validation = options->validation;
  command
      ->add_option("--valid", validation.data,
                   "Data that are not trained on: their loss is measured, each sample once, without dropout")
      ->type_name("DATA");
  CLI::Option* valid_every = command
                                 ->add_option("--valid-every", options->train.validation.every,
                                              "Steps between two measurements of it; 0: at the end only")
                                 ->default_val(100)
                                 ->check(at_least(0));
  command->add_option("--valid-batches", validation.batches, "Most batches for a measurement; 0: all of the data")
      ->capture_default_str()
      ->check(at_least(0));
  command
      ->add_option("--stop-after", options->train.validation.stop_after,
                   "End training after so many measurements in a row without a lower loss; 0: never")
      ->capture_default_str()
      ->check(at_least(0));
  CLI::Option* resume =
      command
          ->add_option("--resume", options->resume,
                       "Continue this checkpoint, with its seed and from its step; --steps counts the steps to come")
          ->type_name("FILE");
  CLI::Option* init_from =
      command
          ->add_option("--init-from", options->init_from,
                       "Parameters start with these weights: safetensors of any program, or a folder of Hugging Face "
                       "(repeatable: a base, and adapters)")
          ->type_name("FILE");
  command
      ->add_option(
          "--map", options->map,
          "Rules (TOML) for the names and layouts of those weights, as in examples/weights, one for all files or one "
          "for each; default: names as in the model")
      ->type_name("RULES")
      ->needs(init_from);
  init_from->excludes("--resume");
  command
      ->add_flag("--new-data", options->new_data,
                 "With --resume: the data are others than the checkpoint's; begin at their first sample")
      ->needs(resume);
  command->add_flag("--other-tokenizer", options->other_tokenizer,
                    "Go on although tokens of the checkpoint, of --data and of --valid are of different tokenizers");
  command->add_option("--sample", options->sample_bytes, "Bytes of text to sample after training; 0: none")
      ->capture_default_str();
  command->add_flag("--profile", options->profile,
                    "Then run one step more and print where its time goes on each GPU, by kernel");
  command->add_option("--prompt", options->prompt, "What the sample begins with")->capture_default_str();
  command->add_option("--temperature", options->temperature, "Of the sample; 0: always the likeliest byte")
      ->capture_default_str()
      ->check(at_least(0));
  command->add_flag("--json", options->json,
                    "Report as JSON on standard output when the run is over; what is told meanwhile goes to standard "
                    "error");
  add_patience(*command, options->patience);
  add_pipeline_options(*command, options->pipeline);
  options->command = command;
  return [options, seed, valid_every, command]() {
    options->job = job_file_of(*command);
    options->seed_given = seed->count() > 0;
    options->validation.every_given = valid_every->count() > 0;
    return run_in_job([&](Job* job) { return execute(*options, job); }, with_patience(options->patience));
  };
}

}  // namespace hetsynth::cli
