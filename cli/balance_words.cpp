#include "cli/balance_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "dsl/base/counted.h"
#include "pipeline/report.h"

namespace hetsynth::cli {
namespace {

using Json = nlohmann::ordered_json;

/// More devices than these are not listed on a line.
constexpr size_t most_listed = 8;

}  // namespace

void tell_speed(int64_t step, const std::string& device, const SpeedWatch::Change& change, BetweenSteps& out) {
  out.lines.push_back(fmt::format("balance: by step {} {} computes at {:.2f} of its planned speed, before at {:.2f}",
                                  step, device, 1 / change.now, 1 / change.before));
  out.records.push_back(Json{
      {"step", step}, {"event", "speed"}, {"device", device}, {"speed", 1 / change.now}, {"before", 1 / change.before}}
                            .dump());
}

void tell_kept(int64_t step, int64_t asked_at, const std::string& why, const PredictedSteps& predicted,
               BetweenSteps& out) {
  out.lines.push_back("balance: nothing is changed: " + why);
  out.records.push_back(Json{
      {"step", step},
      {"event", "kept"},
      {"asked_at_step", asked_at},
      {"why", why},
      {"predicted_now", predicted.now},
      {"predicted_next",
       predicted.next}}.dump());
}

void tell_division(int64_t step, int64_t asked_at, const Plan& plan, bool same_program, const PredictedSteps& predicted,
                   int64_t moved_bytes, double pause_seconds, BetweenSteps& out) {
  Json shares = Json::object();
  std::vector<std::string> words;
  for (const DevicePrediction& device : plan.prediction.devices) {
    shares[device.device] = device.share;
    if (plan.prediction.devices.size() <= most_listed)
      words.push_back(fmt::format("{} {:.0f} %", device.device, 100 * device.share));
  }
  out.lines.push_back(fmt::format(
      "balance: after step {} the work is divided anew: {}, {} -> {} a step as predicted; {} moved, {} of pause{}{}",
      step, same_program ? "other shares of the same program" : "another program", seconds_text(predicted.now),
      seconds_text(predicted.next), bytes_text(double(moved_bytes)), seconds_text(pause_seconds),
      words.empty() ? "" : "; ", fmt::join(words, ", ")));
  out.records.push_back(Json{
      {"step", step},
      {"event", "division"},
      {"asked_at_step", asked_at},
      {"changed", same_program ? "shares" : "plan"},
      {"proof", same_program ? "that of the program, which holds for all boundaries" : "new"},
      {"predicted_now", predicted.now},
      {"predicted_next", predicted.next},
      {"moved_bytes", moved_bytes},
      {"pause_seconds", pause_seconds},
      {"shares", shares}}.dump());
}

std::string text_of_left_out(const std::vector<double>& parts, const std::vector<std::string>& devices) {
  std::vector<std::string> words;
  for (size_t rank = 0; rank < parts.size(); ++rank)
    if (parts[rank] > 0) words.push_back(fmt::format("{} {:.0f} %", devices[rank], 100 * parts[rank]));
  if (words.size() > most_listed)
    return fmt::format("{} devices up to {:.0f} %", words.size(), 100 * *std::ranges::max_element(parts));
  return words.empty() ? "nothing" : fmt::format("{}", fmt::join(words, ", "));
}

void tell_remedy(int64_t step, Remedy taken, const RemedyFigures& figures, const std::vector<std::string>& devices,
                 BetweenSteps& out) {
  const Resizing& resizing = figures.resizing;
  const char* const names[] = {"nothing", "resize", "shares", "plan"};
  const char* const words[] = {"nothing is left out", "columns are left out", "other shares are taken",
                               "another program is taken"};
  std::string line = fmt::format("balance: after step {} {}: a step takes {} as it is", step, words[size_t(taken)],
                                 seconds_text(figures.nothing_seconds));
  if (resizing.any())
    line += fmt::format(", {} if columns are left out ({}; {:.0f} % of the products' work, so worth {})",
                        seconds_text(resizing.seconds), text_of_left_out(resizing.parts, devices),
                        100 * resizing.left_out, seconds_text(resizing.worth_seconds()));
  if (figures.divide_seconds > 0)
    line += fmt::format(", {} under {} ({} of pause, in {})", seconds_text(figures.divide_seconds),
                        figures.same_program ? "other shares" : "another program", seconds_text(figures.pause_seconds),
                        counted(figures.horizon, "step"));
  out.lines.push_back(line);
  Json parts = Json::object();
  for (size_t rank = 0; rank < devices.size(); ++rank)
    parts[devices[rank]] = taken == Remedy::resize ? resizing.parts[rank] : 0.0;
  Json record{{"step", step},
              {"event", "remedy"},
              {"taken", names[size_t(taken)]},
              {"predicted_now", figures.nothing_seconds},
              {"predicted_resized", resizing.any() ? Json(resizing.seconds) : Json(nullptr)},
              {"work_left_out", resizing.left_out},
              {"predicted_divided", nullptr},
              {"left_out", parts}};
  if (figures.divide_seconds > 0) {
    record["predicted_divided"] = figures.divide_seconds;
    record["pause_seconds"] = figures.pause_seconds;
    record["horizon_steps"] = figures.horizon;
  }
  out.records.push_back(record.dump());
}

}  // namespace hetsynth::cli
