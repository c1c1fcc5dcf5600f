#include "synth/synthesize.h"

#include "dsl/base/error.h"
#include "synth/alternation.h"
#include "synth/baselines.h"
#include "synth/device_subsets.h"
#include "synth/meshes.h"

namespace hetsynth {
namespace {

using namespace synth;

/// The fastest of the plans considered, and why there is none.
struct Choice {
  std::optional<Plan> plan;
  std::optional<UserError> infeasible;  ///< of the first plan that did not fit

  void consider(auto make_plan) {
    try {
      std::optional<Plan> made = make_plan();
      if (made && (!plan || made->prediction.step_seconds < plan->prediction.step_seconds)) plan = std::move(made);
    } catch (const UserError& error) {
      if (error.code() != ExitCode::infeasible) throw;
      if (!infeasible) infeasible = error;
    }
  }
};

/// Plans of fewer devices that beat the one which uses all.
void drop_devices(const Problem& all, Budget& budget, Choice* best) {
  best->consider([&] { return synth::single_device_plan(all); });
  std::vector<std::vector<int>> subsets = device_subsets(all.cluster);
  for (size_t i = 1; i < subsets.size() && (!budget.spent() || !best->plan); ++i) {
    Cluster cluster = restricted(all.cluster, subsets[i]);
    Problem part(all.analysis, cluster, flat_mesh(cluster));
    if (best->plan && ideal_seconds(part) >= best->plan->prediction.step_seconds) continue;
    best->consider([&] {
      std::optional<Plan> plan = best_plan(part, budget);
      plan->cluster_hash = hash_text(all.cluster);
      return plan;
    });
  }
}

/// Plans on two mesh axes that beat the one on a single axis.
void try_two_axes(const Problem& all, Budget& budget, Choice* best) {
  std::vector<Mesh> meshes = two_axis_meshes(all.cluster);
  if (meshes.empty() || budget.spent()) return;
  auto analysis = std::make_shared<const Analysis>(all.program, 2);
  for (const Mesh& mesh : meshes) {
    if (budget.spent()) return;
    Problem problem(analysis, all.cluster, mesh);
    best->consider(
        [&] { return best_plan(problem, budget, best->plan ? best->plan->prediction.step_seconds : HUGE_VAL); });
  }
}

}  // namespace

Plan synthesize(const Program& reference, const Cluster& cluster, const SynthesisOptions& options) {
  Budget budget(options);
  Problem problem(reference, cluster);
  Choice best;
  best.consider([&] { return best_plan(problem, budget); });
  if (options.most_axes > 1) try_two_axes(problem, budget, &best);
  if (options.drop_devices && cluster.devices.size() > 1) drop_devices(problem, budget, &best);
  if (!best.plan) throw *best.infeasible;
  best.plan->prediction.baselines = baselines(problem);
  return *std::move(best.plan);
}

}  // namespace hetsynth
