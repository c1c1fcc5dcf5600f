#include "cli/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

#include "cli/job_file.h"
#include "cli/trace_events.h"
#include "dsl/base/output_file.h"
#include "runtime/rank/run_state.h"
#include "runtime/training/step_log.h"

namespace hetsynth::cli {
namespace {

/// The command line that goes on from a checkpoint: this one's, but for what the checkpoint decides.
std::string command_to_go_on(const std::string& checkpoint) {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string out, word;
  for (bool value = false; std::getline(file, word, '\0'); value = word == "--resume" || word == "--seed") {
    const bool decided = word.starts_with("--resume") || word.starts_with("--seed") || word == "--new-data";
    if (value || decided) continue;
    const bool plain = word.find_first_of(" \t\n'\"\\$`*?[]{}();&|<>~#!") == std::string::npos && !word.empty();
    out += out.empty() ? "" : " ";
    if (plain) {
      out += word;
      continue;
    }
    out += '\'';
    for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
    out += '\'';
  }
  return out + " --resume " + checkpoint;
}

}  // namespace

CheckpointInfo continue_checkpoint(RunOptions& options) {
  const CheckpointInfo info = check_checkpoint(options.resume, options.compilation.reference);
  if (options.seed_given)
    throw UserError({.where = {options.resume},
                     .tag = "checkpoint",
                     .message = "a run that goes on keeps the seed of its checkpoint",
                     .expected = fmt::format("--resume without --seed; the checkpoint's seed is {}", info.seed),
                     .found = fmt::format("--seed {}", options.data.seed),
                     .mend = "leave --seed out, or start anew without --resume"},
                    ExitCode::usage);
  options.data.seed = info.seed;
  options.train.first_step = info.next_step;
  if (!info.samples) return info;
  options.data.first_step = info.next_step;
  options.data.seen_samples = options.new_data ? 0 : *info.samples;
  return info;
}

void check_options(const RunOptions& options) {
  const auto need = [&](const std::string& name, const std::string& other) {
    throw UserError({.tag = "run",
                     .message = name + " needs " + other,
                     .mend = "give " + other + " too, or leave " + name + " out"},
                    ExitCode::usage);
  };
  if (options.train.checkpoint.empty()) {
    if (options.train.keep != KeepRule{}) need("--keep", "--checkpoint");
    if (options.train.checkpoint_every > 0) need("--checkpoint-every", "--checkpoint");
  }
  if (!options.validation.data.empty()) return;
  if (options.train.keep.best) need("--keep best", "--valid");
  if (options.validation.every_given) need("--valid-every", "--valid");
  if (options.validation.batches > 0) need("--valid-batches", "--valid");
  if (options.train.validation.stop_after > 0) need("--stop-after", "--valid");
}

/// Throws UserError if two of a run's files would be one.
static void check_different(const std::string& option, const std::string& file, const std::string& words,
                            const std::vector<std::string>& others) {
  for (const std::string& name : others)
    if (!name.empty() && is_same_place(file, name))
      throw UserError({.where = {file},
                       .tag = option,
                       .message = words + " would be the same file",
                       .found = name,
                       .mend = "give them different names"},
                      ExitCode::usage);
}

/// The names of a checkpoint and of what is written beside it.
static std::vector<std::string> names_of_checkpoint(const std::string& checkpoint) {
  if (checkpoint.empty()) return {};
  return {checkpoint, previous_checkpoint(checkpoint), best_checkpoint(checkpoint), job_of_checkpoint(checkpoint)};
}

static void check_trace(const RunOptions& options, std::vector<std::string> inputs) {
  if (options.trace.empty()) return;
  inputs.push_back(options.resume);
  check_output(options.trace, trace_kind, inputs);
  check_different("--trace", options.trace, "the trace and the log", {options.train.log_json});
  check_different("--trace", options.trace, "the trace and the checkpoint",
                  names_of_checkpoint(options.train.checkpoint));
}

/// What a run reads is not written over, but for the checkpoint that it goes on from; nor is one of its files by
/// another.
static void check_names(const RunOptions& options) {
  const std::string& checkpoint = options.train.checkpoint;
  const std::string& log = options.train.log_json;
  const Compilation& c = options.compilation;
  std::vector<std::string> inputs = {c.model_options.file, c.cluster_file, c.plan_file, options.data.path};
  inputs.insert(inputs.end(), options.init_from.begin(), options.init_from.end());
  inputs.insert(inputs.end(), options.map.begin(), options.map.end());
  check_trace(options, inputs);
  if (checkpoint.empty()) return;
  check_not_read(checkpoint, "checkpoint", inputs);
  check_output(job_of_checkpoint(checkpoint), job_file_kind, inputs);
  if (log.empty()) return;
  const std::string_view rest = std::string_view(log).substr(std::min(log.size(), checkpoint.size()));
  if (options.train.keep.last > 0 && log.starts_with(checkpoint) && step_of_name(rest))
    throw UserError({.where = {log},
                     .tag = "--log-json",
                     .message = "a checkpoint that --keep asks for may get the log's name",
                     .mend = "give them different names"},
                    ExitCode::usage);
  check_different("--log-json", log, "the log and the checkpoint", names_of_checkpoint(checkpoint));
}

/// Files that are there under the names of checkpoints that this run is going to keep are checkpoints.
static void check_kept_names(const TrainOptions& train) {
  const std::filesystem::path path(train.checkpoint);
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator(path.has_parent_path() ? path.parent_path() : ".", ignored)) {
    const std::string name = entry.path().filename(), start = path.filename();
    if (!name.starts_with(start)) continue;
    const std::optional<int64_t> step = step_of_name(std::string_view(name).substr(start.size()));
    if (step && *step > train.first_step && *step - train.first_step <= train.steps)
      check_replaceable(checkpoint_of_step(train.checkpoint, *step), checkpoint_kind);
  }
}

/// How often a run writes its checkpoint: at the end, and before as often as it is asked for.
static int64_t saves_of(const TrainOptions& train) {
  return train.checkpoint_every > 0 ? 1 + std::max<int64_t>(0, train.steps - 1) / train.checkpoint_every : 1;
}

void check_targets(const RunOptions& options, const Job* job) {
  if (job && !job->leads()) return;  // the first process writes
  if (!options.train.checkpoint.empty())
    check_checkpoint_target(options.train.checkpoint, options.compilation.reference, saves_of(options.train));
  if (options.train.keep.best)
    check_checkpoint_target(best_checkpoint(options.train.checkpoint), options.compilation.reference);
  if (options.train.keep.last > 0) check_kept_names(options.train);
  if (!options.train.log_json.empty()) check_step_log(options.train.log_json);
  check_names(options);
}

TrainReport train_to_the_end(const RunOptions& options, Executor& executor, const BatchSource& data) {
  try {
    return train(executor, data, options.train);
  } catch (const RunFailed& failed) {
    for (const std::string& file : {options.train.checkpoint, options.resume}) {
      try {
        if (file.empty() || !executor.leads()) continue;
        const CheckpointInfo info = read_checkpoint_info(file);
        throw RunFailed(failed.failure(), fmt::format("{}\n  to go on: {} holds the run up to step {}; {}",
                                                      failed.what(), file, info.next_step, command_to_go_on(file)));
      } catch (const UserError&) {  // it was not written yet
      }
    }
    throw;
  }
}

}  // namespace hetsynth::cli
