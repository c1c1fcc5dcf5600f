#include "cli/step_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/trace_events.h"
#include "dsl/spmd/recomputation.h"
#include "pipeline/report.h"

namespace hetsynth::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string signed_text(double seconds) { return (seconds < 0 ? "-" : "+") + seconds_text(std::abs(seconds)); }

size_t busiest_of(const std::vector<StepParts>& parts) {
  return size_t(std::ranges::max_element(parts, {}, &StepParts::busy) - parts.begin());
}

bool has_several_stages(const Plan& plan) { return !stage_text(plan.program, 0).empty(); }

/// What a device spends most of its step with, in a word.
std::string_view limit_of(const Plan& plan, const StepParts& parts) {
  const double most = std::max({parts.computing, parts.made_again, parts.communicating, parts.waiting});
  if (parts.computing == most)
    return plan.devices.size() == 1 ? "computing" : has_several_stages(plan) ? "slowest stage" : "slowest device";
  return parts.made_again == most ? "memory" : parts.communicating == most ? "link" : "bubble";
}

/// What a trial spends the time with.
StepParts parts_of(const TurnTrial& trial) {
  return {.computing = trial.compute_seconds,
          .communicating = trial.communication_seconds,
          .waiting = std::max(0.0, trial.step_seconds - trial.compute_seconds - trial.communication_seconds)};
}

/// What the step of a trial has more of than that which was taken.
std::string_view more_of(const TurnTrial& trial, const TurnTrial& taken) {
  if (trial.step_seconds <= 0) return "memory";
  const StepParts with = parts_of(trial), without = parts_of(taken);
  const double computing = with.computing - without.computing, waiting = with.waiting - without.waiting,
               communicating = with.communicating - without.communicating;
  const double most = std::max({computing, waiting, communicating});
  if (trial.short_of_memory && most != communicating) return "memory";
  if (computing == most) return trial.stages > 1 ? "slowest stage" : "slowest device";
  return communicating == most ? "link" : "bubble";
}

const TurnTrial* taken(const Prediction& prediction) {
  const auto it = std::ranges::find(prediction.turns, true, &TurnTrial::taken);
  return it == prediction.turns.end() ? nullptr : &*it;
}

}  // namespace

std::vector<StepParts> parts_of_step(const SpmdProgram& program, const std::vector<InstructionPrice>& prices,
                                     const Timeline& timeline) {
  const std::vector<char> again = made_again(program);
  std::vector<StepParts> out;
  for (size_t d = 0; d < timeline.devices.size(); ++d) {
    const DeviceTimeline& device = timeline.devices[d];
    StepParts parts;
    for (size_t i = 0; i < prices.size(); ++i)
      if (!prices[i].communicates() && again[size_t(program.instructions[i].result)] &&
          takes_part(program, program.instructions[i], int(d)))
        parts.made_again += prices[i].device_seconds[d];
    parts.made_again = std::min(parts.made_again, device.compute_seconds);
    parts.computing = device.compute_seconds - parts.made_again;
    parts.communicating = device.communication_seconds - device.hidden_seconds;
    parts.waiting = device.idle_seconds;
    out.push_back(parts);
  }
  return out;
}

double waiting_share(const std::vector<StepParts>& parts) {
  double waiting = 0, all = 0;
  for (const StepParts& device : parts) waiting += device.waiting, all += device.step();
  return all > 0 ? waiting / all : 0;
}

std::string parts_text(const Plan& plan, const std::vector<StepParts>& parts) {
  const auto line = [](const std::string& name, const StepParts& p, double step) {
    return fmt::format("  {:<34} {:>8.1f} % {:>8.1f} % {:>11.1f} % {:>7.1f} %\n", name, percent(p.computing, step),
                       percent(p.made_again, step), percent(p.communicating, step), percent(p.waiting, step));
  };
  const auto figures = [&](size_t d) { return line("", parts[d], parts[d].step()) + stage_text(plan.program, int(d)); };
  std::string out =
      fmt::format("what devices do in the step of {}, which this adds up to\n  {:<34} {:>10} {:>10} {:>13} {:>9}\n",
                  seconds_text(parts.empty() ? 0 : parts[0].step()), "device", "computing", "made again",
                  "communicating", "bubble");
  StepParts all;
  for (size_t d = 0; d < parts.size(); ++d) {
    all.computing += parts[d].computing, all.made_again += parts[d].made_again;
    all.communicating += parts[d].communicating, all.waiting += parts[d].waiting;
  }
  for (size_t d = 0; d < parts.size();) {
    size_t last = d;
    while (last + 1 < parts.size() && figures(last + 1) == figures(d)) ++last;
    out += line((last > d ? plan.devices[d].name + " .. " + plan.devices[last].name : plan.devices[d].name) +
                    stage_text(plan.program, int(d)),
                parts[d], parts[d].step());
    d = last + 1;
  }
  return out + (parts.size() > 1 ? line("all devices", all, all.step()) : "");
}

std::string limit_text(const Plan& plan, const std::vector<StepParts>& parts) {
  if (parts.empty()) return "";
  const size_t d = busiest_of(parts);
  const StepParts& p = parts[d];
  const auto part = [&](double seconds) {
    return fmt::format("{} ({:.1f} %)", seconds_text(seconds), percent(seconds, p.step()));
  };
  std::string out =
      fmt::format("what limits it: the {}: of the step of {}, {}{} computes {}", limit_of(plan, p),
                  seconds_text(p.step()), plan.devices[d].name, stage_text(plan.program, int(d)), part(p.computing));
  if (p.made_again > 0) out += fmt::format(", makes again what memory has no room for in {}", part(p.made_again));
  out += fmt::format(", communicates {} beside no computing and waits {}", part(p.communicating), part(p.waiting));
  const DevicePrediction* full = nullptr;
  for (const DevicePrediction& device : plan.prediction.devices)
    if (!full || device.fullness() > full->fullness()) full = &device;
  if (full && full->fullness() > 0)
    out += fmt::format("; the fullest memory is that of {}, to {:.2g} %", full->device, 100 * full->fullness());
  return out + "\n";
}

std::string why_turns_text(const Prediction& prediction) {
  const TurnTrial* own = taken(prediction);
  if (!own) return "";
  std::string out = fmt::format("why {}: {}; the others, and what their busiest device has more or less:\n",
                                turns_and_stages(*own), seconds_text(own->step_seconds));
  for (const TurnTrial& trial : prediction.turns) {
    if (&trial == own) continue;
    out += fmt::format("  {:<34} ", turns_and_stages(trial));
    if (trial.step_seconds <= 0) {
      out += "does not fit into memory\n";
      continue;
    }
    out += fmt::format("{:>10}  {} a step", seconds_text(trial.step_seconds),
                       signed_text(trial.step_seconds - own->step_seconds));
    // Plan files of earlier versions do not know more.
    if (trial.compute_seconds > 0) {
      const StepParts with = parts_of(trial), without = parts_of(*own);
      out += fmt::format(": computing {}, communicating {}, waiting {}; limited by {}",
                         signed_text(with.computing - without.computing),
                         signed_text(with.communicating - without.communicating),
                         signed_text(with.waiting - without.waiting), more_of(trial, *own));
    }
    out += "\n";
  }
  return out;
}

Json limits_json(const Plan& plan, const std::vector<StepParts>& parts) {
  if (parts.empty()) return Json::object();
  const size_t d = busiest_of(parts);
  return {{"by", limit_of(plan, parts[d])},
          {"device", plan.devices[d].name},
          {"computing_seconds", parts[d].computing},
          {"made_again_seconds", parts[d].made_again},
          {"communicating_seconds", parts[d].communicating},
          {"waiting_seconds", parts[d].waiting},
          {"waiting_share_of_all", waiting_share(parts)}};
}

Json turns_json(const Prediction& prediction) {
  Json out = Json::array();
  const TurnTrial* own = taken(prediction);
  for (const TurnTrial& trial : prediction.turns) {
    Json entry = {{"turns", trial.turns}, {"stages", trial.stages}, {"taken", trial.taken}};
    if (trial.stages > 1) entry["stage_devices"] = trial.stage_devices;
    if (trial.step_seconds > 0)
      entry.update({{"step_seconds", trial.step_seconds},
                    {"computing_seconds", trial.compute_seconds},
                    {"communicating_seconds", trial.communication_seconds},
                    {"waiting_seconds", parts_of(trial).waiting}});
    if (own && &trial != own) entry["limited_by"] = more_of(trial, *own);
    out.push_back(std::move(entry));
  }
  return out;
}

}  // namespace hetsynth::cli
