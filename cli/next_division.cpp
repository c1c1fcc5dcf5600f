#include "cli/next_division.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "codegen/interface/device_program.h"
#include "dsl/base/error.h"
#include "runtime/launch.h"
#include "runtime/rank/median.h"
#include "synth/planner/new_shares.h"
#include "synth/planner/planned_step.h"
#include "verify/rules/form.h"
#include "verify/verify.h"

namespace hetsynth::cli {
namespace {

bool has_same_devices(const Plan& a, const Plan& b) {
  return std::ranges::equal(a.devices, b.devices, {}, &PlanDevice::name, &PlanDevice::name);
}

/// The best plan for the cluster in the turns that the run has; none if nothing fits.
std::optional<Plan> planned_anew(const RunningPlan& running, const Cluster& cluster) {
  try {
    SynthesisOptions options = running.planning;
    options.drop_devices = !running.keeps_devices;
    Plan out = running.whole_step
                   ? synthesize_at_turns(*running.whole_step, *running.reference, running.turns, cluster, options).plan
                   : synthesize(*running.reference, cluster, options);
    if (running.keeps_devices && !has_same_devices(out, running.plan)) return std::nullopt;
    return out;
  } catch (const UserError&) {
    return std::nullopt;
  }
}

/// The plan that is fastest on the cluster.
std::optional<Plan> fastest(const RunningPlan& running, const Cluster& cluster, BalanceMode mode) {
  std::optional<Plan> out = with_new_shares(*running.reference, running.plan, ranks_of(running.plan, cluster));
  if (!plans_anew(mode)) return out;
  std::optional<Plan> other = planned_anew(running, cluster);
  if (!other || (out && out->prediction.step_seconds <= other->prediction.step_seconds)) return out;
  return other;
}

/// Why a plan of another program may not run; empty: it is proved, and its source does what it says.
std::string doubt(const RunningPlan& running, const Plan& plan) {
  // In this process: a fork would copy every page that training writes meanwhile.
  const Verification verification =
      verify(*running.reference, plan.program, {.time_limit_seconds = running.verify_seconds});
  if (verification.verdict != Verdict::proved) return "it is not proved: " + verification.summary;
  std::vector<DeviceProgram> programs;
  for (int rank = 0; rank < plan.program.mesh.device_count(); ++rank)
    programs.push_back(generate(*running.reference, plan.program, ranks_of(plan, running.cluster), rank));
  const GeneratedCheck check = check_generated(*running.reference, plan.program, programs, usual_check_work);
  return check.verdict == Verdict::refuted ? "its source does not do what it says: " + check.worst().summary : "";
}

NextDivision looked_for(const RunningPlan& running, const std::map<std::string, double>& slowness, BalanceMode mode,
                        double least_gain) {
  NextDivision out;
  const Cluster cluster = at_measured_speeds(running.cluster, slowness);
  out.now_seconds = predicted_on(*running.reference, running.plan, ranks_of(running.plan, cluster)).step_seconds;
  std::optional<Plan> plan = fastest(running, cluster, mode);
  if (!plan) {
    out.why_not = mode == BalanceMode::shares ? "the plan's shares cannot be changed (--balance plan may plan anew)"
                                              : "no other plan was found";
    return out;
  }
  out.next_seconds = plan->prediction.step_seconds;
  if (out.next_seconds > out.now_seconds * (1 - least_gain)) {
    out.why_not = out.next_seconds >= out.now_seconds ? "no other division is faster"
                                                      : fmt::format("another division would gain {:.1f} % of a step",
                                                                    100 * (1 - out.next_seconds / out.now_seconds));
    return out;
  }
  const bool proof_stands = running.proved && same_but_for_bounds(running.plan.program, plan->program);
  const std::optional<Flaw> flaw = flaw_of(*running.reference, plan->program);
  HETSYNTH_CHECK(!flaw, "other shares leave the program its form: " + flaw->text);
  if (std::string why = proof_stands ? "" : doubt(running, *plan); !why.empty()) {
    out.why_not = std::move(why);
    return out;
  }
  out.plan = std::move(plan);
  return out;
}

}  // namespace

Cluster at_measured_speeds(const Cluster& cluster, const std::map<std::string, double>& slowness) {
  Cluster out = cluster;
  std::vector<double> known;
  for (const auto& [name, times] : slowness) known.push_back(times);
  for (Device& device : out.devices) {
    const auto found = slowness.find(device.name);
    const double times = found != slowness.end() ? found->second : known.empty() ? 1 : median(known);
    device.declared = slowed(device.declared, times);
    device.measured = slowed(device.measured, times);
  }
  return out;
}

NextDivision next_division(const RunningPlan& running, const std::map<std::string, double>& slowness, BalanceMode mode,
                           double least_gain) {
  try {
    return looked_for(running, slowness, mode, least_gain);
  } catch (const std::exception& error) {
    NextDivision out;
    out.why_not = std::string("looking for another division failed: ") + error.what();
    return out;
  }
}

}  // namespace hetsynth::cli
