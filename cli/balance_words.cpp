#include "cli/balance_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <vector>

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

}  // namespace hetsynth::cli
