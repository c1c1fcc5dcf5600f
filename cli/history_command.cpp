// hetsynth history: what happened to a run between its steps (other divisions of the work and what they brought,
// validations, checkpoints), from its log.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "dsl/base/counted.h"
#include "pipeline/report.h"
#include "runtime/balance/run_history.h"

namespace hetsynth::cli {
namespace {

using Json = nlohmann::ordered_json;

struct HistoryOptions {
  std::string file;
  bool json = false;
};

/// With the step at which it happened, by which lines are ordered.
using Line = std::pair<int64_t, std::string>;

/// "1.2 s saved", "400 ms lost".
std::string saved_text(double seconds) {
  return fmt::format("{} {}", seconds_text(std::abs(seconds)), seconds < 0 ? "lost" : "saved");
}

std::string text_of(const DivisionRecord& division) {
  std::vector<std::string> shares;
  for (const auto& [device, share] : division.shares) shares.push_back(fmt::format("{} {:.0f} %", device, 100 * share));
  std::string out = fmt::format("{} (asked for after step {}); ",
                                division.changed == "plan" ? "another program" : "other shares", division.asked_at);
  if (division.after_seconds > 0)
    out +=
        fmt::format("a step {} -> {} (predicted {} -> {}), pause {}, {} in {}", seconds_text(division.before_seconds),
                    seconds_text(division.after_seconds), seconds_text(division.predicted_before),
                    seconds_text(division.predicted_after), seconds_text(division.pause_seconds),
                    saved_text(division.saved_seconds() - division.pause_seconds), counted(division.steps, "step"));
  else
    out += "no step was done under it";
  return out + (shares.size() <= 8 ? fmt::format("; {}", fmt::join(shares, ", ")) : "");
}

std::string text_of(const RemedyRecord& remedy) {
  const std::map<std::string, const char*> words{{"nothing", "nothing is left out"},
                                                 {"resize", "columns are left out"},
                                                 {"shares", "other shares are taken"},
                                                 {"plan", "another program is taken"}};
  const auto found = words.find(remedy.taken);
  std::string out = fmt::format("{}: a step predicted {}", found == words.end() ? remedy.taken : found->second,
                                seconds_text(remedy.now_seconds));
  if (remedy.resized_seconds > 0)
    out += fmt::format(", without {:.0f} % of the products' work {}", 100 * remedy.work_left_out,
                       seconds_text(remedy.resized_seconds));
  if (remedy.divided_seconds > 0) out += fmt::format(", divided anew {}", seconds_text(remedy.divided_seconds));
  for (const auto& [device, part] : remedy.left_out)
    if (part > 0) out += fmt::format("; {} leaves out {:.0f} %", device, 100 * part);
  return out;
}

std::string text_of(const RunHistory& run, const ValidationRecord& measured) {
  std::string out = measured.loss ? fmt::format("validation loss {:.4f}{}", *measured.loss,
                                                measured.best ? ", the lowest so far" : "")
                                  : "validation without a loss: it was interrupted, or is no finite number";
  for (const auto& [name, value] : measured.metrics) out += fmt::format("  {} {:.4f}", name, value);
  out += fmt::format(" ({} in {})", counted(measured.batches, "batch", "batches"), seconds_text(measured.seconds));
  for (const CheckpointRecord& checkpoint : run.checkpoints)
    if (checkpoint.step == measured.step && !checkpoint.kept.empty())
      out += fmt::format("; kept as {}", fmt::join(checkpoint.kept, ", "));
  return out;
}

/// The lowest loss and the newest checkpoint; empty: the log has neither.
std::string summary_of_validations(const RunHistory& run) {
  std::string out;
  if (const ValidationRecord* best = run.best_validation())
    out += fmt::format("  the lowest of {}: {:.4f} after step {}\n",
                       counted(int64_t(run.validations.size()), "validation loss", "validation losses"), *best->loss,
                       best->step);
  if (!run.checkpoints.empty())
    out += fmt::format("  {} written, the last one {} after step {}\n",
                       counted(int64_t(run.checkpoints.size()), "checkpoint"), run.checkpoints.back().file,
                       run.checkpoints.back().step);
  return out;
}

std::string text_of(const RunHistory& run) {
  std::string out =
      fmt::format("steps {} to {}: {} in {}, the median step {}\n", run.first_step, run.first_step + run.steps - 1,
                  counted(run.steps, "step"), seconds_text(run.seconds), seconds_text(run.step_seconds));
  if (run.lossy_steps > 0)
    out += fmt::format("  lossy: columns of products were left out in {}, up to {:.0f} % of a device's\n",
                       counted(run.lossy_steps, "step"), 100 * run.most_left_out);
  std::vector<Line> lines;
  for (const ValidationRecord& measured : run.validations) lines.emplace_back(measured.step, text_of(run, measured));
  for (const SpeedRecord& speed : run.speeds)
    lines.emplace_back(speed.step, fmt::format("{} at {:.2f} of its planned speed, before at {:.2f}", speed.device,
                                               speed.speed, speed.before));
  for (const DivisionRecord& division : run.divisions) lines.emplace_back(division.step, text_of(division));
  for (const RemedyRecord& remedy : run.remedies) lines.emplace_back(remedy.step, text_of(remedy));
  for (const KeptRecord& kept : run.kept) lines.emplace_back(kept.step, "nothing changed: " + kept.why);
  std::ranges::stable_sort(lines, {}, &Line::first);
  for (const auto& [step, words] : lines) out += fmt::format("  after step {:>6}  {}\n", step, words);
  const std::string summary = summary_of_validations(run);
  if (lines.empty() && summary.empty()) return out + "  nothing happened but steps\n";
  out += summary;
  if (run.divisions.empty()) return out;
  double saved = 0, paused = 0;
  for (const DivisionRecord& division : run.divisions) {
    saved += division.saved_seconds();
    paused += division.pause_seconds;
  }
  return out +
         fmt::format(
             "  in all {} by steps, and {} of pauses; other divisions as soon as the changes were told of would have "
             "saved {} more\n",
             saved_text(saved), seconds_text(paused), seconds_text(run.lost_by_delay()));
}

Json json_of(const RunHistory& run) {
  Json out{{"first_step", run.first_step},
           {"steps", run.steps},
           {"seconds", run.seconds},
           {"step_seconds", run.step_seconds},
           {"lost_by_delay_seconds", run.lost_by_delay()}};
  out["lossy_steps"] = run.lossy_steps;
  out["speeds"] = out["divisions"] = out["kept"] = out["remedies"] = Json::array();
  out["validations"] = out["checkpoints"] = Json::array();
  for (const SpeedRecord& speed : run.speeds)
    out["speeds"].push_back(
        {{"step", speed.step}, {"device", speed.device}, {"speed", speed.speed}, {"before", speed.before}});
  for (const DivisionRecord& d : run.divisions)
    out["divisions"].push_back({{"step", d.step},
                                {"asked_at_step", d.asked_at},
                                {"changed", d.changed},
                                {"pause_seconds", d.pause_seconds},
                                {"before_seconds", d.before_seconds},
                                {"after_seconds", d.after_seconds},
                                {"steps", d.steps},
                                {"saved_seconds", d.saved_seconds()},
                                {"shares", d.shares}});
  for (const KeptRecord& kept : run.kept) out["kept"].push_back({{"step", kept.step}, {"why", kept.why}});
  for (const RemedyRecord& r : run.remedies)
    out["remedies"].push_back({{"step", r.step},
                               {"taken", r.taken},
                               {"predicted_now", r.now_seconds},
                               {"predicted_resized", r.resized_seconds},
                               {"predicted_divided", r.divided_seconds},
                               {"work_left_out", r.work_left_out},
                               {"left_out", r.left_out}});
  for (const ValidationRecord& v : run.validations) {
    out["validations"].push_back({{"step", v.step},
                                  {"loss", v.loss ? Json(*v.loss) : Json(nullptr)},
                                  {"best", v.best},
                                  {"batches", v.batches},
                                  {"samples", v.samples},
                                  {"seconds", v.seconds}});
    if (!v.metrics.empty()) out["validations"].back()["metrics"] = v.metrics;
  }
  for (const CheckpointRecord& c : run.checkpoints)
    out["checkpoints"].push_back({{"step", c.step}, {"file", c.file}, {"kept", c.kept}});
  if (const ValidationRecord* best = run.best_validation())
    out["best_validation"] = {{"step", best->step}, {"loss", *best->loss}};
  return out;
}

ExitCode show(const HistoryOptions& options) {
  const std::vector<RunHistory> runs = read_history(options.file);
  if (options.json) {
    Json out = Json::array();
    for (const RunHistory& run : runs) out.push_back(json_of(run));
    fmt::print("{}\n", out.dump(2));
    return ExitCode::done;
  }
  if (runs.empty()) fmt::print("no step was done\n");
  for (const RunHistory& run : runs) fmt::print("{}", text_of(run));
  return ExitCode::done;
}

}  // namespace

Command add_history(CLI::App& app) {
  auto options = std::make_shared<HistoryOptions>();
  CLI::App* command = app.add_subcommand(
      "history",
      "Tell what happened to a run between its steps, from its log: changes of devices and what became of them, "
      "validations, checkpoints");
  command->add_option("file", options->file, "Log, as run --log-json writes it")->required();
  command->add_flag("--json", options->json, "Report as JSON");
  return [options]() { return show(*options); };
}

}  // namespace hetsynth::cli
