#include "runtime/training/train.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "dsl/base/error.h"
#include "runtime/data/data_ahead.h"
#include "runtime/rank/interrupt.h"
#include "runtime/training/checkpoint.h"
#include "runtime/training/step_log.h"

namespace hetsynth {
namespace {

[[noreturn]] void fail_not_finite(const StepReport& report) {
  throw UserError({{},
                   "training",
                   fmt::format("the loss of step {} is {}", report.step, report.loss),
                   "a finite number",
                   "",
                   "lower the learning rate, warm it up over more steps, or clip the gradients (clip_norm)"},
                  ExitCode::failure);
}

}  // namespace

TrainReport train(Executor& executor, const BatchSource& data, const TrainOptions& options) {
  const WorkUnit unit = work_unit(executor.reference());
  if (options.steps > largest_step - options.first_step)
    throw UserError({{},
                     "training",
                     "a run does not count so many steps",
                     fmt::format("at most {}", largest_step),
                     fmt::format("{} after {} done", options.steps, options.first_step),
                     ""},
                    ExitCode::usage);
  const int64_t last = options.first_step + options.steps - 1;
  std::optional<StepLog> log;
  if (!options.log_json.empty() && executor.leads())
    log.emplace(options.log_json, executor.device_names(), unit, executor.arena_bytes());
  std::ostream nowhere(nullptr);
  Progress progress(options.out ? *options.out : nowhere, options.progress, {executor.device_names(), unit, last},
                    options.first_step, last);
  const std::string data_fingerprint = options.checkpoint.empty() ? "" : data.fingerprint();
  const auto save = [&](int64_t next_step) {
    if (options.checkpoint.empty()) return;
    save_checkpoint(options.checkpoint, executor,
                    {.next_step = next_step,
                     .samples = samples_before(executor.reference(), data, next_step),
                     .data = data.description(),
                     .data_fingerprint = data_fingerprint});
  };

  TrainReport out;
  out.unit = unit;
  out.idle.assign(static_cast<size_t>(executor.ranks()), 0);
  const DataAhead ahead(data, last);
  InterruptGuard interrupt;
  int64_t step = options.first_step;
  for (; step <= last && !executor.anywhere(interrupt.requested()); ++step) {
    StepReport report;
    try {
      report = executor.step(step, ahead);
    } catch (...) {
      progress.finish();
      throw;
    }
    out.losses.push_back(report.loss);
    out.seconds += report.seconds;
    for (size_t i = 0; i < out.idle.size(); ++i) out.idle[i] += report.ranks[i].idle_seconds;
    progress.add(report);
    if (log) log->add(report);
    if (options.on_step) options.on_step(report);
    if (!std::isfinite(report.loss)) {
      progress.finish();
      if (options.explain) throw options.explain(report);
      fail_not_finite(report);
    }
    if (options.checkpoint_every > 0 && (step + 1) % options.checkpoint_every == 0 && step != last) save(step + 1);
  }
  progress.finish();
  out.interrupted = step <= last;
  if (!out.losses.empty()) {
    out.smoothed_loss = progress.state().smoothed_loss();
    out.units_per_second = progress.state().units_per_second();
    for (double& idle : out.idle) idle /= out.seconds;
  }
  save(step);
  return out;
}

std::string summary(const TrainReport& report, const std::vector<std::string>& devices) {
  if (report.losses.empty()) return "no step was done";
  std::string out = fmt::format("{} steps in {:.1f} s, loss {:.4f} -> {:.4f}", report.losses.size(), report.seconds,
                                report.losses.front(), report.smoothed_loss);
  if (report.unit.per_step > 0) {
    const double units = static_cast<double>(report.unit.per_step) * static_cast<double>(report.losses.size());
    out += fmt::format(", {} {}/s", text_of_rate(units / report.seconds), report.unit.name);
  }
  if (devices.size() > 1) out += ", idle";
  for (size_t i = 0; i < devices.size() && devices.size() > 1; ++i)
    out += fmt::format(" {} {:.0f}%", devices[i], 100 * report.idle[i]);
  return (report.interrupted ? "stopped after " : "") + out;
}

}  // namespace hetsynth
