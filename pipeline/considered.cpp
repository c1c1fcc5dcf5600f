#include "pipeline/considered.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "pipeline/report.h"

namespace hetsynth {
namespace {

using Json = nlohmann::ordered_json;

/// The plan's own.
const Trial* taken(const Prediction& prediction) {
  const auto it = std::ranges::find(prediction.considered, "taken", &Trial::outcome);
  return it == prediction.considered.end() ? nullptr : &*it;
}

/// What most of a step goes into.
std::string dominant_text(const Trial& trial) {
  const double bytes = trial.communication_seconds - trial.latency_seconds;
  if (trial.communication_seconds == 0)
    return "each computes everything, as sharing the work would cost more than it saves, and the slowest sets the pace";
  if (trial.latency_seconds >= std::max(bytes, trial.compute_seconds)) return "most of it is latency of collectives";
  if (bytes >= trial.compute_seconds) return "most of it is moving data between devices";
  return "most of it is computing, at the pace of the slowest device";
}

std::string parts_text(const Trial& trial) {
  std::string out = "computing " + seconds_text(trial.compute_seconds);
  if (trial.communication_seconds > 0)
    out += fmt::format(", communicating {} ({} of it latency)", seconds_text(trial.communication_seconds),
                       seconds_text(trial.latency_seconds));
  return out;
}

std::string found_text(const Trial& trial) {
  return fmt::format("step {}: {}", seconds_text(trial.step_seconds), parts_text(trial));
}

/// Differs from one of the same mesh in no figure that is printed.
bool looks_like(const Trial& trial, const Trial& before) {
  return trial.mesh == before.mesh && trial.devices == before.devices && before.step_seconds > 0 &&
         trial.step_seconds > 0 && found_text(trial) == found_text(before);
}

}  // namespace

std::string why_left_out(const Plan& plan) {
  const std::vector<Trial>& trials = plan.prediction.considered;
  const Trial* own = taken(plan.prediction);
  if (!own) return "";
  const int all = std::ranges::max_element(trials, {}, &Trial::device_count)->device_count;
  if (all == own->device_count) return "";
  // The fastest of the plans that have all devices, or else what they cannot be below.
  const Trial* with = nullptr;
  const auto rank = [](const Trial& trial) {
    return trial.step_seconds > 0 ? std::pair(0, trial.step_seconds) : std::pair(1, trial.bound_seconds);
  };
  for (const Trial& trial : trials)
    if (trial.device_count == all && (!with || rank(trial) < rank(*with))) with = &trial;
  const double seconds = rank(*with).second, ratio = seconds / own->step_seconds;
  const std::string times = ratio < 1.005 ? "no less" : fmt::format("{:.2f} times as long", ratio);
  if (with->step_seconds > 0)
    return fmt::format("with all {} devices a step takes {}, {}: {}; {}", all, seconds_text(seconds), times,
                       parts_text(*with), dominant_text(*with));
  if (seconds >= own->added_seconds())
    return fmt::format("with all {} devices instructions add up to no less than {}, here to {}", all,
                       seconds_text(seconds), seconds_text(own->added_seconds()));
  return fmt::format("with all {} devices: {}", all, with->outcome);
}

std::string considered_text(const Prediction& prediction) {
  if (prediction.considered.size() < 2) return "";
  std::string out = "what was considered, by mesh and devices\n";
  const Trial* before = nullptr;
  for (const Trial& trial : prediction.considered) {
    if (before && looks_like(trial, *before)) continue;
    before = &trial;
    out += fmt::format("  {} on {}: ", fmt::join(trial.mesh, " x "), trial.devices);
    if (trial.step_seconds > 0) out += found_text(trial) + "; ";
    out += trial.outcome;
    if (trial.bound_seconds > 0)
      out += fmt::format(" (no plan on it adds up to less than {})", seconds_text(trial.bound_seconds));
    out += "\n";
  }
  return out;
}

Json considered_json(const Prediction& prediction) {
  Json out = Json::array();
  for (const Trial& trial : prediction.considered) {
    Json entry = {{"mesh", trial.mesh},
                  {"devices", trial.devices},
                  {"device_count", trial.device_count},
                  {"bound_seconds", trial.bound_seconds},
                  {"outcome", trial.outcome}};
    if (trial.step_seconds > 0)
      entry.update({{"step_seconds", trial.step_seconds},
                    {"compute_seconds", trial.compute_seconds},
                    {"communication_seconds", trial.communication_seconds},
                    {"hideable_seconds", trial.hideable_seconds},
                    {"latency_seconds", trial.latency_seconds}});
    out.push_back(std::move(entry));
  }
  return out;
}

}  // namespace hetsynth
