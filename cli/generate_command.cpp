// hetsynth generate: a trained language model continues a text.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "cli/given.h"
#include "cli/job_command.h"
#include "cli/pipeline_options.h"
#include "cli/prepare_plan.h"
#include "cli/prompt.h"
#include "cli/prompt_filling.h"
#include "dsl/base/counted.h"
#include "dsl/base/hash.h"
#include "dsl/base/output_file.h"
#include "pipeline/report.h"
#include "runtime/rank/arena.h"
#include "runtime/rank/interrupt.h"
#include "runtime/rank/notice.h"
#include "runtime/tokenizers/text_stream.h"
#include "runtime/training/checkpoint.h"
#include "runtime/training/text_generation.h"
#include "runtime/unicode/utf8.h"

namespace hetsynth::cli {
namespace {

struct GenerateOptions {
  const CLI::App* command = nullptr;
  Compilation compilation;
  std::string checkpoint;
  PromptOptions prompt;
  GenerationOptions generation;
  std::string end_of_text, output;
  bool whole_windows = false;
  std::optional<int64_t> prompt_block;  ///< tokens of the prompt that are read at once; none: what is faster
  bool other_tokenizer = false;         ///< than the checkpoint's
  double patience = 6;
  bool unverified = false;
  bool json = false;
};

/// A batch of one, where the model lets its batch be set and the user does not.
void take_one_sample(Compilation& c) {
  const std::map<std::string, std::string> settings = model_settings(c);
  if (settings.contains("batch")) return;
  for (const OptionValue& option : c.model->trace(settings)->program.options)
    if (option.name == "batch") c.model_options.batch = 1;
}

/// Makes of the traced model the program that is run for every token. `reason` is set to why it reads whole windows.
GenerationProgram generation_program(const Trace& trace, bool whole_windows, std::string* reason) {
  const Program forward = logits_program(trace);
  if (!whole_windows) {
    RememberingProgram remembering = remembering_program(forward);
    if (remembering.program) return *std::move(remembering.program);
    *reason = std::move(remembering.reason);
  }
  return window_program(forward);
}

double tokens_per_second(const Generation& found) {
  return found.tokens.size() > 1 && found.seconds > 0 ? double(found.tokens.size() - 1) / found.seconds : 0;
}

/// `block`: tokens of the prompt that were read at once.
std::string json_of(const GenerateOptions& options, const GenerationProgram& program, const std::string& reason,
                    int64_t block, const Prompt& prompt, const std::string& text, const Generation& found) {
  nlohmann::ordered_json out{{"checkpoint", options.checkpoint},
                             {"prompt", unicode::with_replacements(prompt.text)},
                             {"text", text},
                             {"prompt_tokens", prompt.tokens},
                             {"tokens", found.tokens},
                             {"whole_windows", program.reads_window},
                             {"prompt_block", block},
                             {"prompt_seconds", found.prompt_seconds},
                             {"seconds", found.seconds},
                             {"tokens_per_second", tokens_per_second(found)},
                             {"resident_bytes", peak_resident_bytes()},
                             {"complete", found.complete}};
  if (!reason.empty()) out["why_whole_windows"] = reason;
  return out.dump(2) + "\n";
}

/// For people, on standard error: standard output has the text alone.
void tell(const std::string& line, const Job* job) {
  if (!job || job->leads()) notice("hetsynth: {}\n", line);
}

/// "200 tokens in 1.25 s (159 tokens/s) after a prompt of 12 in 20.0 ms".
std::string summary(const Prompt& prompt, const Generation& found) {
  const auto count = int64_t(found.tokens.size());
  std::string out = found.complete ? "" : "stopped early: ";
  if (count == 0) return out + "no token";
  out += counted(count, "token");
  if (count > 1) out += fmt::format(" in {} ({:.4g} tokens/s)", seconds_text(found.seconds), tokens_per_second(found));
  return out + fmt::format(" after a prompt of {} in {}", prompt.tokens.size(), seconds_text(found.prompt_seconds));
}

CLI::Validator probability() {
  const auto check = [](const std::string& text) {
    double value = 0;
    if (CLI::detail::lexical_cast(text, value) && value > 0 && value <= 1) return std::string();
    return fmt::format("expected a number above 0, at most 1, found {}", text);
  };
  return {check, ""};
}

void agree_with_others(Job& job, const GenerateOptions& options, const Prompt& prompt) {
  const std::string tokens = fmt::format("{}", fmt::join(prompt.tokens, ","));
  std::vector<GivenValue> given = given_to_command(*options.command, options.compilation);
  given.push_back({"checkpoint", checkpoint_fingerprint(options.checkpoint), options.checkpoint});
  given.push_back(
      {"prompt", fmt::format("{} of {}", counted(int64_t(prompt.tokens.size()), "token"), content_hash(tokens))});
  given.push_back({"tokenizer", fmt::format("{} tokens, end of text {}", options.generation.drawn_below,
                                            options.generation.end.value_or(-1))});
  agree(job, given);
}

ExitCode execute(GenerateOptions& options, Job* job) {
  Compilation& c = options.compilation;
  if (!options.output.empty() && (!job || job->leads()))
    check_output(options.output, text_kind,
                 std::vector{c.model_options.file, c.cluster_file, options.checkpoint, options.prompt.tokenizer});
  ask_for_evaluation(c, job);
  run_pipeline(c, "load", {});
  take_one_sample(c);
  GenerationProgram program;
  std::string reason;
  c.reference_of = [&](Trace& trace) {
    program = generation_program(trace, options.whole_windows, &reason);
    return program.program;
  };
  run_pipeline(c, "differentiate", {});
  if (options.prompt_block) check_prompt_block(program, *options.prompt_block);
  const std::set<NodeId> remembered(program.remembered.begin(), program.remembered.end());
  const CheckpointInfo info = check_for_evaluation(options.checkpoint, c.reference, remembered);
  const TokenCodec codec(options.prompt, program.model, info.tokenizer);
  if (!options.other_tokenizer)
    check_tokenizer_of(options.checkpoint, info.tokenizer, codec.origin(),
                       codec.reads_bytes() ? "the prompt, whose bytes are tokens" : options.prompt.tokenizer);
  const Prompt prompt = codec.prompt(options.prompt, job);
  options.generation.drawn_below = codec.tokens();
  if (!options.end_of_text.empty()) options.generation.end = codec.token("--end-of-text", options.end_of_text);
  if (job) agree_with_others(*job, options, prompt);
  c.check_work = usual_check_work;
  // Standard output is for the text.
  if (const auto ended =
          prepare_plan(c, {}, {.unverified = options.unverified, .brief = "generation", .silent = true}, job))
    return *ended;
  tell(fmt::format("{}, {} a token predicted; {}", counted(int64_t(c.plan.devices.size()), "device"),
                   seconds_text(c.plan.prediction.step_seconds), c.verification.summary),
       job);
  if (!reason.empty()) tell("whole windows are read for every token: " + reason, job);
  if (const auto count = int64_t(prompt.tokens.size()); count > program.model.length)
    tell(fmt::format("the prompt has {} tokens, the model's window {}: the last {} are read", count,
                     program.model.length, program.model.length),
         job);
  LaunchOptions launching = launch_options(c, info.seed, job);
  launching.parameters_follow = true;
  const std::unique_ptr<Executor> executor = launch(c.reference, c.plan.program, c.cluster, launching);
  load_for_evaluation(options.checkpoint, *executor, remembered);
  std::optional<PromptFilling> filling;
  const int64_t ahead =
      tokens_read_ahead(int64_t(prompt.tokens.size()), options.generation.tokens, program.model.length);
  const int64_t block =
      options.prompt_block.value_or(fastest_prompt_block(program, ahead, c.plan.prediction.step_seconds));
  if (block > 1) {
    filling.emplace(c, program, block, options.prompt_block.has_value());
    if (const auto ended = filling->prepare(options.checkpoint, *executor, options.unverified, job)) return *ended;
    if (!filling->reason().empty()) tell("the prompt is read token by token: " + filling->reason(), job);
  }

  const InterruptGuard interrupt;
  TextStream stream = codec.stream();
  std::string text;
  const auto show = [&](const std::string& more) {
    text += more;
    if (options.json || more.empty() || !executor->leads()) return;
    fmt::print("{}", more);
    std::fflush(stdout);
  };
  std::string read;
  for (const int32_t token : prompt.tokens) read += stream.add(token);
  show(codec.reads_bytes() ? read : prompt.text);
  const size_t begin = text.size();
  const Generation found = generate_tokens(
      *executor, program, prompt.tokens, options.generation, [&](int32_t token) { show(stream.add(token)); },
      filling ? filling->filling() : TextFilling());
  show(stream.end());
  if (options.json)
    fmt::print("{}",
               json_of(options, program, reason, filling ? filling->block() : 1, prompt, text.substr(begin), found));
  else
    fmt::print("\n");
  std::fflush(stdout);
  tell(summary(prompt, found), job);
  if (!found.complete) return stopped_early;
  if (!options.output.empty() && executor->leads()) write_output(options.output, text_kind, text);
  return ExitCode::done;
}

}  // namespace

Command add_generate(CLI::App& app) {
  auto options = std::make_shared<GenerateOptions>();
  CLI::App* command = app.add_subcommand(
      "generate", "Continue a text by a trained language model: a file that marks its logits, and a checkpoint of it");
  add_model_options(*command, options->compilation.model_options);
  command->add_option("checkpoint", options->checkpoint, "Checkpoint, as run --checkpoint writes it")->required();
  command->add_option("--prompt", options->prompt.text, "Text to continue; -: what stands on standard input")
      ->required()
      ->type_name("TEXT");
  command
      ->add_option(
          "--tokenizer,-t", options->prompt.tokenizer,
          "Of models of tokens: tokenizer.json or a model of SentencePiece; bytes: every byte is a token, which "
          "is the default up to a vocabulary of 256")
      ->type_name("FILE");
  command->add_flag("--other-tokenizer", options->other_tokenizer,
                    "Go on although the checkpoint was trained on tokens of another tokenizer");
  command->add_flag("--around-text", options->prompt.around_text,
                    "Begin with what the tokenizer's file has before texts, as <s>");
  GenerationOptions& generation = options->generation;
  command->add_option("--tokens,-n", generation.tokens, "Tokens to generate")
      ->capture_default_str()
      ->check(at_least(1));
  command
      ->add_option("--temperature", generation.sampling.temperature,
                   "Logits are divided by it; 0: always the likeliest token")
      ->capture_default_str()
      ->check(at_least(0));
  command->add_option("--top-k", generation.sampling.top_k, "Draw of so many likeliest tokens alone; 0: of all")
      ->capture_default_str()
      ->check(at_least(0));
  command
      ->add_option("--top-p", generation.sampling.top_p,
                   "Draw of the likeliest tokens alone whose probabilities first add up to it; 1: of all")
      ->capture_default_str()
      ->check(probability());
  command->add_option("--seed", generation.seed, "Of the draws: the same seed gives the same text")
      ->capture_default_str();
  command->add_option("--end-of-text", options->end_of_text, "Token that ends the text when it is drawn")
      ->type_name("TOKEN");
  command
      ->add_option("--output,-o", options->output,
                   "Write prompt and text here, too; the file takes its place when all tokens are there")
      ->type_name("FILE");
  CLI::Option* whole = command->add_flag("--whole-windows", options->whole_windows,
                                         "Read the whole window for every token, and remember nothing");
  command
      ->add_option("--prompt-block", options->prompt_block,
                   "Tokens of the prompt that are read at once, a divisor of the model's window; 1: one by one; "
                   "default: what is faster, as planned")
      ->type_name("N")
      ->check(at_least(1))
      ->excludes(whole);
  add_cluster_or_cores(*command, options->compilation);
  add_planning_options(*command, options->compilation);
  command->add_flag("--unverified", options->unverified, "Go on even if the plan is not proved");
  command->add_flag("--json", options->json, "Report as JSON, when all tokens are there");
  add_patience(*command, options->patience);
  options->command = command;
  return [options]() {
    return run_in_job([&](Job* job) { return execute(*options, job); }, with_patience(options->patience));
  };
}

}  // namespace hetsynth::cli
