#include "runtime/training/train.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <optional>

#include "dsl/base/error.h"
#include "runtime/data/data_ahead.h"
#include "runtime/rank/interrupt.h"
#include "runtime/rank/throttle.h"
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

[[noreturn]] void fail_of_overflow(const StepReport& report, const OptimizerReport& told) {
  throw UserError({{},
                   "training",
                   fmt::format("gradients overflowed in {} steps in a row up to step {}, and nothing is trained",
                               told.falls, report.step),
                   "a loss scale at which they are finite",
                   fmt::format("it fell to {:.3g}, and they are not", told.next_loss_scale),
                   "look for what is not finite in the backward pass"},
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
  Validations validations(options.validation);
  KeptCheckpoints kept(options.checkpoint, options.keep);
  std::function<std::string()> plan = options.plan;
  TrainReport out;
  const auto save = [&](int64_t next_step) {
    if (options.checkpoint.empty()) return;
    const bool is_measured = validations.measured_after(next_step - 1);
    const bool is_best = is_measured && validations.is_best();
    save_checkpoint(
        options.checkpoint, executor,
        {.next_step = next_step,
         .samples = samples_before(executor.reference(), data, next_step),
         .data = data.description(),
         .data_fingerprint = data_fingerprint,
         .plan = plan ? plan() : "",
         .validation_loss = is_measured ? validations.loss() : std::nullopt,
         .tokenizer = data.origin().known() ? data.origin() : options.tokenizer,
         .left_out = {options.left_out.steps + out.left_out.steps, options.left_out.work + out.left_out.work}});
    if (!executor.leads()) return;
    const std::vector<std::string> names = kept.written(next_step, is_best);
    // Logs of runs that measure nothing have records of steps alone, as readers of them may expect.
    if (log && validations.measures()) log->add(checkpoint_record(options.checkpoint, next_step, names));
  };

  out.unit = unit;
  std::map<std::string, double> idle;  // seconds, by device
  OptimizerNumbers optimizer(executor);
  // What it reads goes from one process to the others in every step.
  const bool is_followed = executor.anywhere(log.has_value()) || optimizer.follows_scale();
  const DataAhead ahead(data, last);
  InterruptGuard interrupt;
  const double began = wall_seconds();
  int64_t step = options.first_step;
  const auto settle = [&] {
    if (options.before_writing) options.before_writing();
  };
  const auto tell = [&](const BetweenSteps& done) {
    if (!done.lines.empty()) progress.finish();
    for (const std::string& line : done.lines)
      if (options.out) *options.out << line << '\n' << std::flush;
    if (log)
      for (const std::string& record : done.records) log->add(record);
  };
  const auto validate = [&](int64_t after) {
    validations.measure(after);
    out.validations.push_back(validations.measured());
    tell({{validations.line()}, {validation_record(out.validations.back())}});
  };
  // Where nobody takes what the run says, it saves and stops, as it does when its terminal is closed.
  const auto asked_to_stop = [&] { return interrupt.requested() || (options.out && !*options.out); };
  const auto run = [&] {
    for (; step <= last && !out.gave_up && !executor.anywhere(asked_to_stop()); ++step) {
      StepReport report;
      try {
        report = executor.step(step, ahead);
        report.elapsed_seconds = wall_seconds() - began;
      } catch (...) {
        progress.finish();
        throw;
      }
      out.losses.push_back(report.loss);
      out.step_seconds.push_back(report.seconds);
      out.metrics = report.metrics;
      out.seconds += report.seconds;
      if (const double left_out = report.left_out(); left_out > 0) {
        ++out.left_out.steps;
        out.left_out.work += left_out;
      }
      for (size_t i = 0; i < report.ranks.size(); ++i) idle[executor.device_names()[i]] += report.ranks[i].idle_seconds;
      progress.add(report);
      const OptimizerReport told = is_followed ? optimizer.after(step) : OptimizerReport();
      if (log) log->add(report, told);
      if (options.on_step) options.on_step(report);
      if (!std::isfinite(report.loss)) {
        progress.finish();
        if (options.explain) throw options.explain(report);
        fail_not_finite(report);
      }
      if (told.falls == most_falls) {
        progress.finish();
        settle();
        save(step + 1);
        if (options.explain_overflow) throw options.explain_overflow(report, told);
        fail_of_overflow(report, told);
      }
      if (options.between_steps && step != last) {
        const BetweenSteps done = options.between_steps(report);
        tell(done);
        if (!done.records.empty()) {
          progress.show(executor.device_names());
          if (log) log->show(executor.device_names(), executor.arena_bytes());
        }
      }
      if (step == last) continue;
      bool is_best = false;
      if (validations.is_due(step)) {
        validate(step);
        is_best = validations.is_best();
        out.gave_up = validations.give_up();
      }
      const bool is_time = options.checkpoint_every > 0 && (step + 1) % options.checkpoint_every == 0;
      if (is_time || (is_best && options.keep.best)) {
        settle();
        save(step + 1);
      }
    }
    const bool to_the_end = step > last || out.gave_up;
    if (validations.measures() && to_the_end && !validations.measured_after(step - 1)) validate(step - 1);
    settle();
  };
  try {
    run();
  } catch (const TakenBack& back) {
    progress.finish();
    plan = {};  // what is known of now is that which was left
    save(back.next_step);
    throw InternalError(back.what());
  }
  progress.finish();
  out.interrupted = step <= last && !out.gave_up;
  out.validation_loss = validations.loss();
  if (std::isfinite(validations.best())) out.best_validation_loss = validations.best();
  if (!out.losses.empty()) {
    out.smoothed_loss = progress.state().smoothed_loss();
    out.units_per_second = progress.state().units_per_second();
  }
  out.devices = executor.device_names();
  for (const std::string& device : out.devices) out.idle.push_back(out.seconds > 0 ? idle[device] / out.seconds : 0);
  out.memory_bytes = executor.arena_bytes();
  out.next_step = step;
  save(step);
  out.checkpoints = kept.files();
  return out;
}

std::string summary(const TrainReport& report) {
  if (report.losses.empty()) return "no step was done";
  std::string out = fmt::format("{} steps in {:.1f} s, loss {:.4f} -> {:.4f}", report.losses.size(), report.seconds,
                                report.losses.front(), report.smoothed_loss);
  if (report.unit.per_step > 0) {
    const double units = static_cast<double>(report.unit.per_step) * static_cast<double>(report.losses.size());
    out += fmt::format(", {} {}/s", text_of_rate(units / report.seconds), report.unit.name);
  }
  if (report.validation_loss) out += fmt::format(", validation loss {:.4f}", *report.validation_loss);
  if (report.validation_loss && *report.validation_loss > report.best_validation_loss.value_or(*report.validation_loss))
    out += fmt::format(" (lowest {:.4f})", *report.best_validation_loss);
  if (report.devices.size() > 1) out += ", idle";
  for (size_t i = 0; i < report.devices.size() && report.devices.size() > 1; ++i)
    out += fmt::format(" {} {:.0f}%", report.devices[i], 100 * report.idle[i]);
  if (report.left_out.steps > 0) out += "; lossy: columns were left out in " + text(report.left_out);
  return (report.interrupted ? "stopped after " : report.gave_up ? "ended for want of a gain: " : "") + out;
}

}  // namespace hetsynth
