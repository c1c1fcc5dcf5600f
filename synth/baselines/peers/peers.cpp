#include "synth/baselines/peers/peers.h"

#include <functional>
#include <utility>

#include "dsl/base/error.h"
#include "synth/baselines/baselines.h"
#include "synth/baselines/peers/hap.h"
#include "synth/baselines/peers/layerwise.h"
#include "synth/baselines/peers/mcmc.h"
#include "synth/baselines/peers/sharded_optimizer.h"

namespace hetsynth {
namespace {

using namespace synth;
using Chooser = std::function<Choices(const AtShares&)>;

std::string reason(const UserError& error) {
  const Diagnostic& d = error.diagnostic();
  return d.found.empty() ? d.message : d.message + ": " + d.found;
}

/// The faster of the plans that fit; a reason if none does.
class Fastest {
 public:
  explicit Fastest(std::string name) { out_.name = std::move(name); }
  void consider(const std::function<std::optional<Plan>()>& make) {
    try {
      std::optional<Plan> plan = make();
      if (plan && (!out_.plan || plan->prediction.objective_seconds < out_.plan->prediction.objective_seconds))
        out_.plan = std::move(plan);
      else if (!plan && out_.why_not.empty())
        out_.why_not = "its rules allow no plan that fits";
    } catch (const UserError& error) {
      if (error.code() != ExitCode::infeasible) throw;
      if (out_.why_not.empty()) out_.why_not = reason(error);
    }
  }
  PeerPlan result() && {
    if (out_.plan) out_.why_not.clear();
    return std::move(out_);
  }

 private:
  PeerPlan out_;
};

Choices tensor_parallel_choices(const AtShares& at) { return at.cheapest(tensor_parallel_pins(at.problem)); }

}  // namespace

PeerPlan stopped_peer(std::string name) {
  return {.name = std::move(name), .why_not = "not planned: the comparison was interrupted", .compared = false};
}

std::vector<PeerPlan> peer_plans(const Program& reference, const Cluster& cluster, const StopToken& stop) {
  const Problem problem(reference, cluster);
  const AtShares even(problem, RatioRule::even), by_speed(problem, RatioRule::proportional);
  std::vector<PeerPlan> out;
  auto add = [&](const char* name, const std::vector<const AtShares*>& shares, const Chooser& choose) {
    if (stop.stopped()) return out.push_back(stopped_peer(name));
    Fastest fastest(name);
    for (const AtShares* at : shares)
      fastest.consider([&]() -> std::optional<Plan> {
        Choices choices = choose(*at);
        if (choices.empty()) return std::nullopt;
        return at->plan(choices, name);
      });
    out.push_back(std::move(fastest).result());
  };
  auto data_parallel = [](const AtShares& at) { return data_parallel_choices(at.problem); };
  add("even data parallel", {&even}, data_parallel);
  add("speed-proportional data parallel", {&by_speed}, data_parallel);
  std::vector<const AtShares*> either{&even};
  if (even.shares != by_speed.shares) either.push_back(&by_speed);
  add("ZeRO-1", either, [](const AtShares& at) { return sharded_optimizer_choices(at, 1); });
  add("ZeRO-2", either, [](const AtShares& at) { return sharded_optimizer_choices(at, 2); });
  add("ZeRO-3", either, [](const AtShares& at) { return sharded_optimizer_choices(at, 3); });
  add("Megatron (tensor and sequence)", either, tensor_parallel_choices);
  add("FlexFlow (MCMC)", either, [](const AtShares& at) { return walked_choices(at); });
  add("Galvatron (by layer)", either, flat_layerwise_choices);
  constexpr const char* hap_name = "HAP's rules";
  Fastest hap(hap_name);
  if (!stop.stopped()) hap.consider([&] { return hap_plan(problem); });
  out.push_back(stop.stopped() ? stopped_peer(hap_name) : std::move(hap).result());
  return out;
}

}  // namespace hetsynth
