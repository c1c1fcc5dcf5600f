#include "synth/planner/planned_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "dsl/base/error.h"
#include "dsl/spmd/recomputation.h"
#include "dsl/transform/turns.h"
#include "synth/mesh/device_subsets.h"
#include "synth/planner/no_pipeline.h"
#include "synth/planner/pipelines.h"
#include "synth/shares/start_shares.h"
#include "synth/stages/peers/pipeline_peers.h"
#include "synth/support/parameters.h"

namespace hetsynth {
namespace {

/// A plan is short of memory if it makes values twice so as not to keep them, or if a device is full and nothing shows
/// that the plan is the fastest.
bool short_of_memory(const Plan& plan) {
  const Prediction& p = plan.prediction;
  if (std::ranges::count(made_again(plan.program), char(1)) > 0) return true;
  const bool full = std::ranges::any_of(p.devices, [](auto& device) { return device.fullness() > synth::full_memory; });
  return full && p.shares_bound_seconds < p.objective_seconds * (1 - synth::gap_of_full_memory);
}

class ChoosingTurns {
 public:
  ChoosingTurns(const Program& whole, const Cluster& cluster, const SynthesisOptions& options)
      : whole_(whole), cluster_(cluster), options_(options) {}

  PlannedStep run() {
    // Where a step in turns may fit, too, a search that has not found a plan by its usual end is given up at first.
    const bool gives_up = options_.effort != Effort::full && !possible_turns(whole_).empty();
    std::optional<UserError> unfit = search(gives_up);
    if (!best_ && gives_up && !stopped_ && !late()) {
      tried_.clear();
      unfit = search(false);
    }
    add_peers({});
    if (!best_) throw explained(*unfit);
    return taken();
  }

  PlannedStep run_at(const Program& in_turns, TurnCount count) {
    std::optional<UserError> unfit = plan(in_turns, count, options_.effort, false);
    if (!count.last_apart && count.turns > 1) add_pipelines(count.turns);
    add_peers(count);
    if (!best_) throw with_other_turns(*unfit, count);
    return taken();
  }

 private:
  /// Returns the error of the most turns in which the step was tried, if no plan fits or was found.
  std::optional<UserError> search(bool gives_up) {
    short_ = false;
    std::optional<UserError> unfit = plan(whole_, {}, options_.effort, gives_up);
    if (short_)
      if (std::optional<UserError> in_turns = add_turns(gives_up)) unfit = std::move(in_turns);
    add_pipelines({});
    return unfit;
  }

  /// Twice as many turns each time: in as many as memory asks for, but not on where more were slower twice. Of normal
  /// effort quick plans choose their number; if one of them is the fastest plan, another is searched for at length.
  /// Where no quick plan fits (not `gives_up`), all are. Returns the error of the last number that does not fit.
  std::optional<UserError> add_turns(bool gives_up) {
    std::optional<UserError> unfit;
    const bool quick_first = options_.effort == Effort::normal && gives_up;
    int64_t before = 1;
    int slower = 0;
    for (const int64_t turns : possible_turns(whole_)) {
      if (turns < 2 * before) continue;
      if (stopped_ || !short_ || slower == 2 || (best_ && late())) break;
      before = turns;
      const double fastest = best_ ? best_->plan.prediction.step_seconds : 0;
      short_ = false;
      for (const bool last_apart : {false, true}) {
        Turns taken = take_turns(whole_, {turns, last_apart});
        if (!taken.program) {
          refusal_ = taken.refusal;
          return unfit;
        }
        const TurnCount count{turns, last_apart};
        const Effort effort = quick_first ? Effort::quick : options_.effort;
        if (std::optional<UserError> error = plan(*taken.program, count, effort, gives_up)) {
          unfit = with_turns(*error, count);
          break;
        }
      }
      slower = fastest > 0 && best_->plan.prediction.step_seconds >= fastest ? slower + 1 : 0;
    }
    if (quick_first && best_ && best_->program && !stopped_ && !late()) {
      const Program in_turns = *best_->program;
      const TurnCount count = best_->turns;
      plan(in_turns, count, options_.effort, true);
      forget_slower(text(count));
    }
    return unfit;
  }

  /// Of the two plans in so many turns, of which the later one was searched for at length, the slower is not told.
  void forget_slower(const std::string& turns) {
    const TurnTrial later = tried_.back();
    const auto quick = std::ranges::find(tried_, turns, &TurnTrial::turns);
    if (quick->step_seconds > later.step_seconds && later.step_seconds > 0) *quick = later;
    tried_.pop_back();
  }

  PlannedStep taken() {
    for (TurnTrial& trial : tried_)
      trial.taken = trial.turns == text(best_->turns) && trial.step_seconds == best_->plan.prediction.step_seconds;
    if (tried_.size() > 1) best_->plan.prediction.turns = tried_;
    return std::move(*best_);
  }

  /// A pipeline is taken if it is faster, or if its number of stages is fixed.
  void add_pipelines(std::optional<int64_t> turns) {
    const bool pinned = options_.stages && *options_.stages > 1;
    if (options_.stages == 1 || options_.pins.any() || cluster_.devices.size() < 2) return;
    if (!pinned && (stopped_ || late() || options_.effort == Effort::quick)) return;
    const double to_beat = best_ && !pinned ? best_->plan.prediction.step_seconds : 0;
    const PipelineOptions options{.stages = options_.stages,
                                  .turns = turns,
                                  .recompute = options_.pins.recompute,
                                  .to_beat = to_beat,
                                  .stop = [this] { return stop(); }};
    std::optional<PipelinePlan> pipeline = best_pipeline(whole_, cluster_, options, &tried_);
    if (!pipeline) {
      if (pinned) throw why_no_pipeline(whole_, cluster_, options);
      return;
    }
    take(std::move(*pipeline));
  }

  void take(PipelinePlan found) {
    Prediction& prediction = found.plan.prediction;
    if (best_) tell_of(best_->plan.prediction, found);
    if (prediction.floor_seconds == 0)
      prediction.floor_seconds = synth::least_busy_seconds(synth::Problem(whole_, cluster_));
    best_ = {std::move(found.plan), {}, {found.turns}};
    if (found.turns > 1) best_->program = std::move(found.program);
  }

  /// Galvatron's plan without stages, and of full effort all those of other systems that take turns and stages. They
  /// minimise something else than the sum of instructions, of which more may hide on two axes; cut equal stages of
  /// unlike devices; and divide stages along two axes. `pinned`: turns that were asked for.
  void add_peers(std::optional<TurnCount> pinned) {
    const bool stages = !options_.stages, free = options_.stages.value_or(1) == 1 && !options_.pins.any();
    if (!free || options_.most_axes < 2 || options_.effort == Effort::quick || cluster_.devices.size() < 2) return;
    if (stopped_ || late()) return;
    PeerOptions options{.pinned = pinned.has_value(), .stages = stages && options_.effort == Effort::full};
    if (pinned) options.turns = *pinned;
    options.stop = synth::StopToken([this] { return !stop(); });
    std::vector<PeerPlan> peers = pipeline_peers(whole_, cluster_, options);
    for (PeerPlan& peer : peers) {
      if (!peer.plan) continue;
      const Prediction& prediction = peer.plan->prediction;
      if (best_ && prediction.step_seconds >= best_->plan.prediction.step_seconds) continue;
      const BusiestDevice busiest = busiest_device(prediction.devices);
      tried_.push_back({.turns = text(TurnCount{peer.turns}),
                        .stages = peer.stages,
                        .stage_devices = peer.stages > 1 ? int(cluster_.devices.size()) / peer.stages : 0,
                        .step_seconds = prediction.step_seconds,
                        .compute_seconds = busiest.compute_seconds,
                        .communication_seconds = busiest.communication_seconds});
      take({std::move(*peer.plan), peer.step ? *peer.step : whole_, peer.turns, synth::device_list(cluster_)});
    }
  }

  /// What was considered before the pipeline.
  static void tell_of(const Prediction& before, PipelinePlan& pipeline) {
    Prediction& now = pipeline.plan.prediction;
    now.baselines = before.baselines;
    now.floor_seconds = before.floor_seconds;
    now.cut_short = before.cut_short;
    now.considered = before.considered;
    for (Trial& trial : now.considered)
      if (trial.outcome == "taken") trial.outcome = "not faster than the plan";
    Trial own;
    for (const Mesh::Axis& axis : pipeline.plan.program.mesh.axes) own.mesh.push_back(axis.size);
    own.devices = pipeline.devices;
    own.device_count = pipeline.plan.program.mesh.device_count();
    own.step_seconds = now.step_seconds;
    for (const DevicePrediction& device : now.devices) {
      own.compute_seconds = std::max(own.compute_seconds, device.compute_seconds);
      own.communication_seconds = std::max(own.communication_seconds, device.communication_seconds);
    }
    own.outcome = "taken";
    now.considered.push_back(std::move(own));
  }

  /// The error, if nothing fits.
  std::optional<UserError> plan(const Program& program, TurnCount turns, Effort effort, bool gives_up) {
    SynthesisOptions options = options_;
    options.effort = effort;
    options.gives_up = gives_up;
    if (options_.time_limit_seconds)
      options.time_limit_seconds = std::max(0.0, *options_.time_limit_seconds - seconds_since_start());
    if (options_.progress)
      options.progress = [this](const SynthesisProgress& progress) {
        stopped_ = stopped_ || !options_.progress(progress);
        return !stopped_;
      };
    try {
      Plan plan = synthesize(program, cluster_, options);
      short_ = short_ || short_of_memory(plan);
      const BusiestDevice busiest = busiest_device(plan.prediction.devices);
      const bool twice = std::ranges::count(made_again(plan.program), char(1)) > 0;
      tried_.push_back({.turns = text(turns),
                        .step_seconds = plan.prediction.step_seconds,
                        .compute_seconds = busiest.compute_seconds,
                        .communication_seconds = busiest.communication_seconds,
                        .short_of_memory = twice});
      if (best_ && best_->plan.prediction.step_seconds <= plan.prediction.step_seconds) return std::nullopt;
      best_ = {std::move(plan), {}, turns};
      if (turns.turns > 1) best_->program = program;
      return std::nullopt;
    } catch (const UserError& error) {
      if (error.diagnostic().tag != "memory" && !(gives_up && error.code() == ExitCode::infeasible)) throw;
      short_ = true;
      tried_.push_back({.turns = text(turns)});
      return error;
    }
  }

  /// Tells of the time, and whether it is up.
  bool stop() {
    if (options_.progress) {
      SynthesisProgress progress;
      progress.elapsed_seconds = seconds_since_start();
      if (best_) progress.best_seconds = best_->plan.prediction.step_seconds;
      stopped_ = stopped_ || !options_.progress(progress);
    }
    return stopped_ || late();
  }
  bool late() const { return options_.time_limit_seconds && seconds_since_start() >= *options_.time_limit_seconds; }
  double seconds_since_start() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  static UserError with_turns(const UserError& error, TurnCount count) {
    Diagnostic diagnostic = error.diagnostic();
    diagnostic.message += fmt::format(", with the step taken in {} turns", count.turns);
    return UserError(std::move(diagnostic), error.code());
  }

  /// Other turns are advised where they are the same step, which accumulated batches need not be: of a loss that
  /// compares samples, or a statistic over the batch, they make another.
  UserError with_other_turns(const UserError& error, TurnCount count) const {
    for (const int64_t turns : possible_turns(whole_)) {
      if (turns == count.turns || !take_turns(whole_, {turns, false}).program) continue;
      Diagnostic diagnostic = error.diagnostic();
      diagnostic.mend = fmt::format(
          "leave --turns out, so that their number is chosen, or give another: it stays the same step; or {}",
          diagnostic.mend);
      return with_turns(UserError(std::move(diagnostic), error.code()), count);
    }
    return with_turns(error, count);
  }

  UserError explained(const UserError& error) const {
    return refusal_ ? with_refusal(error, whole_, *refusal_) : error;
  }

  const Program& whole_;
  const Cluster& cluster_;
  const SynthesisOptions& options_;
  std::optional<PlannedStep> best_;
  std::vector<TurnTrial> tried_;
  std::optional<NoTurns> refusal_;
  bool short_ = false;  ///< of memory: the plan made last
  bool stopped_ = false;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

PlannedStep synthesize_at_turns(const Program& whole, const Program& in_turns, TurnCount count, const Cluster& cluster,
                                const SynthesisOptions& options) {
  return ChoosingTurns(whole, cluster, options).run_at(in_turns, count);
}

PlannedStep synthesize_in_turns(const Program& whole, const Cluster& cluster, const SynthesisOptions& options) {
  return ChoosingTurns(whole, cluster, options).run();
}

}  // namespace hetsynth
