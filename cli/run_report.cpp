#include "cli/run_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "dsl/base/error.h"
#include "pipeline/report.h"
#include "runtime/rank/arena.h"
#include "runtime/rank/median.h"

namespace hetsynth::cli {
namespace {

using Json = nlohmann::ordered_json;

void flush_output() {
  std::cout.flush();
  std::fflush(stdout);
}

Json devices_of(const TrainReport& report) {
  Json out = Json::array();
  for (size_t i = 0; i < report.devices.size(); ++i)
    out.push_back({{"device", report.devices[i]}, {"idle", report.idle[i]}, {"memory_bytes", report.memory_bytes[i]}});
  return out;
}

Json validation_of(const TrainReport& report) {
  Json out{{"loss", nullptr}, {"best_loss", nullptr}, {"measurements", Json::array()}};
  if (report.validation_loss) out["loss"] = *report.validation_loss;
  if (report.best_validation_loss) out["best_loss"] = *report.best_validation_loss;
  for (const MeasuredLoss& measured : report.validations) {
    out["measurements"].push_back(Json::parse(validation_record(measured)));
    out["measurements"].back().erase("event");
  }
  return out;
}

}  // namespace

TextAside::TextAside(bool wanted) {
  if (!wanted) return;
  flush_output();
  output_ = ::dup(STDOUT_FILENO);
  if (output_ < 0 || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
    throw UserError({.message = std::string("standard output cannot be kept for the report: ") + std::strerror(errno)},
                    ExitCode::failure);
}

void TextAside::end() {
  if (output_ < 0) return;
  flush_output();
  ::dup2(output_, STDOUT_FILENO);
  ::close(std::exchange(output_, -1));
}

std::string run_json(const RunOptions& options, const TrainReport& report, const RunFacts& facts) {
  const Compilation& c = options.compilation;
  const auto steps = int64_t(report.losses.size());
  Json out{{"model", c.model_options.file},          {"data", facts.data},       {"seed", options.data.seed},
           {"first_step", options.train.first_step}, {"steps", steps},           {"next_step", report.next_step},
           {"complete", !report.interrupted},        {"gave_up", report.gave_up}};
  if (steps > 0) {
    out["loss"] = report.losses.back();
    out["first_loss"] = report.losses.front();
    out["average_loss"] = report.smoothed_loss;
    for (const auto& [name, value] : report.metrics) out["metrics"][name] = value;
    out["step_seconds"] = median(report.step_seconds);
    out[report.unit.name + "_per_second"] = double(report.unit.per_step * steps) / report.seconds;
  }
  out["predicted_step_seconds"] = c.plan.prediction.step_seconds;
  out["seconds"] = report.seconds;
  out["devices"] = devices_of(report);
  out["resident_bytes"] = peak_resident_bytes();
  if (!options.validation.data.empty()) out["validation"] = validation_of(report);
  out["checkpoints"] = report.checkpoints;
  if (options.balance == BalanceMode::lossy)
    out["lossy"] = {{"steps", report.left_out.steps}, {"work_in_steps", report.left_out.work}};
  if (!options.train.log_json.empty()) out["log"] = options.train.log_json;
  if (!options.trace.empty()) out["trace"] = options.trace;
  if (!facts.sample.empty()) out["sample"] = facts.sample;
  out["generate_seconds"] = facts.launched.generate_seconds;
  out["compile_seconds"] = facts.launched.compile_seconds;
  out["plan"] = Json::parse(plan_json(c.plan, c.reference, c.left_out));
  out["verification"] = Json::parse(verification_json(c.verification, &c.source_check));
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace hetsynth::cli
