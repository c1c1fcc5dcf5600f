#include "cli/compare.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "pipeline/report.h"
#include "synth/schedule/price.h"

namespace hetsynth::cli {
namespace {

using Json = nlohmann::ordered_json;

/// The device whose memory is filled most, by its limit where it has one.
const DevicePrediction& fullest_device(const Plan& plan) {
  auto fill = [](const DevicePrediction& d) {
    return d.memory_limit_bytes > 0 ? double(d.memory_bytes) / double(d.memory_limit_bytes) : double(d.memory_bytes);
  };
  return *std::ranges::max_element(plan.prediction.devices, {}, fill);
}

std::string row(const std::string& name, const Plan& plan, double ratio, int64_t turns) {
  const DevicePrediction& fullest = fullest_device(plan);
  std::string memory = bytes_text(double(fullest.memory_bytes));
  if (fullest.memory_limit_bytes > 0) memory += " of " + bytes_text(double(fullest.memory_limit_bytes));
  return fmt::format("  {:<34} {:>10} {:>9.2f} {:>6} {:>7}  {:<24} {}\n", name,
                     seconds_text(plan.prediction.step_seconds), ratio, turns, stage_count(plan.program), memory,
                     fullest.device);
}

}  // namespace

Plan without_baselines_of(const std::vector<PeerPlan>& peers, Plan plan) {
  std::erase_if(plan.prediction.baselines, [&](const BaselinePrediction& baseline) {
    return std::ranges::any_of(peers, [&](const PeerPlan& peer) { return peer.name == baseline.name; });
  });
  return plan;
}

std::string comparison_text(const Plan& plan, int64_t turns, const std::vector<PeerPlan>& peers) {
  const double own = plan.prediction.step_seconds;
  std::string out =
      fmt::format("plans of other systems in the same space and cost model\n  {:<34} {:>10} {:>9} {:>6} {:>7}  {}\n",
                  "", "step", "x ours", "turns", "stages", "memory of the fullest device");
  out += row("this plan", plan, 1, turns);
  for (const PeerPlan& peer : peers)
    out += peer.plan ? row(peer.name, *peer.plan, peer.plan->prediction.step_seconds / own, peer.turns)
                     : fmt::format("  {:<34} {:>10} {:>9} {:>6} {:>7}  {}\n", peer.name, "-", "", "", "", peer.why_not);
  return out;
}

std::string with_comparison(const std::string& plan_json, const Plan& plan, const std::vector<PeerPlan>& peers) {
  Json out = Json::parse(plan_json);
  out["peers"] = Json::array();
  for (const PeerPlan& peer : peers) {
    Json entry = {{"name", peer.name}, {"feasible", peer.compared ? Json(peer.plan.has_value()) : Json()}};
    if (peer.plan) {
      const DevicePrediction& fullest = fullest_device(*peer.plan);
      entry.update({{"step_seconds", peer.plan->prediction.step_seconds},
                    {"ratio", peer.plan->prediction.step_seconds / plan.prediction.step_seconds},
                    {"turns", peer.turns},
                    {"stages", stage_count(peer.plan->program)},
                    {"fullest_device", fullest.device},
                    {"memory_bytes", fullest.memory_bytes},
                    {"memory_limit_bytes", fullest.memory_limit_bytes}});
    } else {
      entry["why_not"] = peer.why_not;
    }
    out["peers"].push_back(std::move(entry));
  }
  return out.dump(2) + "\n";
}

}  // namespace hetsynth::cli
