#include "cli/balance.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/balance_words.h"
#include "cli/device_joins.h"
#include "cli/leaving_out.h"
#include "cli/source_checks_beside.h"
#include "dsl/base/counted.h"
#include "dsl/base/error.h"
#include "dsl/base/new_file.h"
#include "dsl/spmd/migration.h"
#include "dsl/transform/differentiate.h"
#include "pipeline/report.h"
#include "runtime/balance/speed_watch.h"
#include "runtime/launch.h"
#include "runtime/processes/agreement.h"
#include "runtime/processes/step_exchange.h"
#include "runtime/rank/throttle.h"
#include "synth/planner/new_shares.h"
#include "verify/migration.h"

namespace hetsynth::cli {
namespace {

/// Steps after which speeds count as known: of a beginning, of a change of speeds, and of another division. What slows
/// devices for a few steps is over by then.
constexpr int steps_to_know = 8;
/// A division that is predicted to gain less than this part of a step is left alone: predictions are not nearer to the
/// truth than that.
constexpr double least_gain = 0.05;
/// Speeds stay as they are as long as they have been so, and so many seconds at least (the expectation of a duration of
/// which nothing but its beginning is known; J. R. Gott, 1993).
constexpr double least_horizon_seconds = 60;
/// Seconds of a core that another division takes besides moving tensors: to compile and to check the source of a rank.
/// Measured of gpt.cpp at a batch of 48, which takes 0.3 s and 1 s.
constexpr double usual_work = 1.5;
/// Steps between two questions whether all processes have checked their source.
constexpr int64_t steps_between_checks = 8;
/// What is waited for takes a fourth of a core from ranks that want all of it.
constexpr int nice_of_what_is_waited_for = 5;

template <class Work>
auto beside(int nice, Work work) {
  return std::async(std::launch::async, [nice, work = std::move(work)]() mutable {
    ::setpriority(PRIO_PROCESS, 0, nice);  // of this thread alone, and of those that it starts
    return work();
  });
}

template <class Result>
bool is_ready(const std::future<Result>& future) {
  return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

/// Keeps the plan as a file, for those who look for the fault, and says where.
std::string kept_plan(const Plan& plan, const Program& reference) {
  try {
    const std::string path = make_temporary_folder("hetsynth-") + "/refuted-plan.json";
    save_plan(path, plan, reference);
    return "The plan is in " + path;
  } catch (const UserError& error) {  // the run that is taken back counts for more
    return "The plan could not be kept: " + error.diagnostic().message;
  }
}

}  // namespace

struct Balance::Impl {
  /// What is under way. Each is the same in all processes at every step.
  enum class State {
    watching,
    searching,  ///< one process looks for another division
    compiling   ///< all compile their ranks of it
  };

  Impl(RunOptions& run, Executor& ranks, const ExecutorOptions& ranks_options, Job* processes, BalanceMeans how)
      : options(run),
        c(run.compilation),
        executor(ranks),
        executor_options(ranks_options),
        job(processes),
        means(std::move(how)),
        unchecked(c.reference, means.check, job),
        watch(expected()),
        idle(size_t(ranks.ranks()), 0),
        proved(c.verification.verdict == Verdict::proved) {
    if (job)
      proved = from_first(*job, proved);
    else
      joins.emplace(options);
    if (options.balance == BalanceMode::lossy) leaving_out.emplace(c, executor, job);
  }

  ~Impl() { stop = true; }

  BetweenSteps after(const StepReport& report) {
    BetweenSteps out;
    step = report.step;
    // What is done beside the training makes ranks slower while it lasts, and the first step of a division is no usual
    // one.
    const bool is_usual = state == State::watching && step != last_change + 1 && step != options.train.first_step;
    if (is_usual) look(report, out);
    switch (state) {
      case State::watching:
        if (joins && joins->look(c, step, out)) {  // devices that are new are as good as speeds that are
          looked_at = false;
          divisions_since_change = 0;
        }
        if (!looked_at && watch.settled_steps() >= steps_to_know && still_gains()) search();
        break;
      case State::searching:
        take_what_was_found(out);
        break;
      case State::compiling:
        go_over_when_ready(out);
        break;
    }
    if (step % steps_between_checks == 0) stay_when_checked(/*wait=*/false);
    return out;
  }

  void settle() {
    while (!unchecked.empty()) stay_when_checked(/*wait=*/true);
  }

  // Watching.

  /// Seconds that each rank should compute in a step, at the speeds of the cluster file.
  std::vector<double> expected() const {
    std::vector<double> out;
    for (const DevicePrediction& device : predicted_on(c.reference, c.plan, c.cluster).devices)
      out.push_back(device.compute_seconds);
    return out;
  }

  /// Takes in a step.
  void look(const StepReport& report, BetweenSteps& out) {
    std::vector<double> seconds;
    for (size_t rank = 0; rank < report.ranks.size(); ++rank) {
      const RankTimes& times = report.ranks[rank];
      seconds.push_back(times.compute_seconds + times.throttle_seconds);
      idle[rank] = 0.8 * idle[rank] + 0.2 * times.idle_seconds;
    }
    if (leaving_out) seconds = leaving_out->with_all_columns(report);
    const std::vector<SpeedWatch::Change> changes = watch.add(seconds);
    for (const SpeedWatch::Change& change : changes)
      tell_speed(report.step, executor.device_names()[size_t(change.rank)], change, out);
    if (!changes.empty()) {
      last_change = report.step;
      divisions_since_change = 0;
      looked_at = false;
    }
    recent_seconds =
        recent_seconds == 0 || !changes.empty() ? report.seconds : 0.8 * recent_seconds + 0.2 * report.seconds;
    // At once, as it costs nothing; and again when speeds are known better.
    if (leaving_out && (!changes.empty() || watch.settled_steps() == steps_to_know)) resize(out);
  }

  /// What is best to leave out at the speeds at hand.
  Resizing best_resizing() const {
    std::vector<double> seconds = expected();
    const std::vector<double> slowness = watch.slowness();
    for (size_t rank = 0; rank < seconds.size(); ++rank) seconds[rank] *= slowness[rank];
    return leaving_out->best(seconds, slowness, least_gain);
  }

  void resize(BetweenSteps& out) {
    const RemedyFigures figures{.nothing_seconds = seconds_with_all_columns(), .resizing = best_resizing()};
    const Remedy taken = choose_remedy(figures, least_gain);
    take_parts(taken, figures, out);
  }

  /// Ranks leave out what the choice says. Told of if it changes anything, or `always`.
  void take_parts(Remedy taken, const RemedyFigures& figures, BetweenSteps& out, bool always = false) {
    Resizing none{.parts = std::vector<double>(size_t(executor.ranks()), 0), .seconds = figures.nothing_seconds};
    Resizing next = taken == Remedy::resize ? figures.resizing : none;
    const bool changes = leaving_out->take(next.parts);
    if (changes) {
      recent_seconds *= next.seconds / (resized.any() ? resized.seconds : figures.nothing_seconds);
      resized = std::move(next);
    }
    if (changes || always) tell_remedy(step, taken, figures, executor.device_names(), out);
  }

  /// Recent seconds of a step, as they would be if nothing were left out.
  double recent_with_all_columns() const {
    return resized.any() ? recent_seconds * seconds_with_all_columns() / resized.seconds : recent_seconds;
  }

  /// Predicted of a step at the speeds at hand.
  double seconds_with_all_columns() const {
    std::map<std::string, double> slowness;
    const std::vector<double> by_rank = watch.slowness();
    for (size_t rank = 0; rank < by_rank.size(); ++rank) slowness[executor.device_names()[rank]] = by_rank[rank];
    return predicted_on(c.reference, c.plan, at_measured_speeds(c.cluster, slowness)).step_seconds;
  }

  /// The first division at new speeds may be corrected by what is measured under it, and that one again, as long as
  /// steps become shorter by it: predictions alone could go to and fro.
  bool still_gains() {
    if (divisions_since_change < 2 || recent_with_all_columns() < (1 - least_gain / 2) * seconds_before) return true;
    looked_at = true;
    return false;
  }

  // Searching.

  /// Takes over how many times as slow as planned the devices are. A device's time is not quite proportional to its
  /// work, and much less so under a quota of CPU time: what is measured at one share is not true at another. Going half
  /// of the way does not overshoot.
  void learn_slowness() {
    const std::vector<double> by_rank = watch.slowness();
    for (size_t rank = 0; rank < by_rank.size(); ++rank) {
      double& of_device = known[executor.device_names()[rank]];
      const bool corrects = divisions_since_change > 0 && of_device > 0;
      of_device = corrects ? std::sqrt(of_device * by_rank[rank]) : by_rank[rank];
    }
  }

  const Cluster& devices() const { return job ? c.cluster : c.all_devices; }

  void search() {
    looked_at = true;
    asked_at = step;
    state = State::searching;
    const auto idlest = std::ranges::max_element(idle) - idle.begin();
    searcher = job ? executor_options.process_of.at(size_t(idlest)) : 0;
    learn_slowness();
    if (job && job->process() != searcher) return;
    RunningPlan running;
    running.reference = std::make_shared<Program>(c.reference);
    if (c.whole_step) {
      running.whole_step = std::make_shared<Program>(*c.whole_step);
      running.turns = c.turns;
    }
    running.plan = c.plan;
    running.proved = proved;
    running.cluster = devices();
    running.keeps_devices = job != nullptr;  // processes have the devices that they were started for
    running.verify_seconds = c.verify_seconds;
    running.planning = planning_options(c);
    // Plans that use all devices anyway may hide communication where that is said.
    if (job && c.plan.program.mesh.axes.size() == 1 && c.pins.mesh.empty())
      running.planning.pins.mesh = {c.plan.program.mesh.device_count()};
    running.planning.progress = [this](const SynthesisProgress&) { return !stop; };
    found_beside =
        beside(nice_of_what_is_waited_for, [running = std::move(running), speeds = known, mode = options.balance] {
          return next_division(running, speeds, mode, least_gain);
        });
  }

  /// What the searching process says: nothing yet, or what was found.
  std::string word_of_search() {
    if ((job && job->process() != searcher) || !is_ready(found_beside)) return "";
    NextDivision found = found_beside.get();
    nlohmann::json word;
    if (leaving_out)
      choose(found, word);
    else if (found.plan)
      found.why_not = why_not_worth_it(found);
    word["now"] = found.now_seconds;
    word["next"] = found.next_seconds;
    word["why"] = found.why_not;
    word["plan"] = found.why_not.empty() ? plan_to_json(*found.plan, c.reference) : "";
    return word.dump();
  }

  /// Chooses between what was found, leaving columns out, and neither.
  void choose(NextDivision& found, nlohmann::json& word) const {
    RemedyFigures figures{.nothing_seconds = found.now_seconds, .resizing = best_resizing()};
    if (found.plan) {
      figures.divide_seconds = found.next_seconds;
      figures.same_program = same_but_for_bounds(c.plan.program, found.plan->program);
      figures.horizon = horizon();
      // In seconds of the predictions, as steps are.
      figures.pause_seconds = pause_of(*found.plan) * found.now_seconds / recent_with_all_columns();
    }
    const Remedy taken = choose_remedy(figures, least_gain);
    if (taken == Remedy::resize)
      found.why_not = "leaving columns out is worth more";
    else if (taken == Remedy::nothing && found.plan)
      found.why_not = "another division gains no more than going over takes";
    word["taken"] = int(taken);
    word["divided"] = {figures.divide_seconds, figures.same_program, figures.pause_seconds, figures.horizon};
    word["resized"] = {figures.resizing.parts, figures.resizing.seconds, figures.resizing.left_out};
  }

  void take_remedy(const nlohmann::json& word, BetweenSteps& out) {
    const nlohmann::json &divided = word["divided"], &resizing = word["resized"];
    const RemedyFigures figures{.nothing_seconds = word["now"],
                                .resizing = {resizing[0], resizing[1], resizing[2]},
                                .divide_seconds = divided[0],
                                .same_program = divided[1],
                                .pause_seconds = divided[2],
                                .horizon = divided[3]};
    const auto taken = Remedy(word["taken"].get<int>());
    // Until ranks go over to another division they go on as they are.
    if (taken == Remedy::shares || taken == Remedy::plan)
      tell_remedy(step, taken, figures, executor.device_names(), out);
    else
      take_parts(taken, figures, out, /*always=*/true);
  }

  /// Empty: it is. Gains last as long as the speeds do.
  std::string why_not_worth_it(const NextDivision& found) const {
    const double gain = recent_with_all_columns() * (1 - found.next_seconds / found.now_seconds) * double(horizon());
    const double pause = pause_of(*found.plan);
    if (gain > pause) return "";
    return fmt::format("another division gains {} in the {} it is expected to last, and going over takes {}",
                       seconds_text(gain), counted(horizon(), "step"), seconds_text(pause));
  }

  /// Steps that speeds are expected to stay as they are.
  int64_t horizon() const {
    const int64_t left = options.train.first_step + options.train.steps - 1 - step;
    const auto least = int64_t(least_horizon_seconds / std::max(recent_seconds, 1e-6));
    return std::min(left, std::max(least, step - last_change));
  }

  /// Seconds that going over to the plan costs.
  double pause_of(const Plan& plan) const {
    const double bytes = double(moved_bytes(c.reference, migration_to(plan)));
    const double bandwidth = c.cluster.slowest_link().bandwidth_bytes_per_second;
    return usual_work + (bandwidth > 0 ? bytes / bandwidth : 0);
  }

  void take_what_was_found(BetweenSteps& out) {
    const std::string own = word_of_search();
    const std::string word = job ? job->exchange(own).at(size_t(searcher)) : own;
    if (word.empty()) return;
    const auto found = nlohmann::json::parse(word);
    predicted = {found["now"], found["next"]};
    if (leaving_out) take_remedy(found, out);
    if (const std::string why = found["why"]; !why.empty()) return keep(why, out);
    if (joins && !joins->take()) return keep("the device that was to join does not ask any more", out);
    next = plan_from_json(found["plan"].get<std::string>(), "the plan made while training", c.reference);
    compile();
    go_over_when_ready(out);
  }

  void keep(const std::string& why, BetweenSteps& out) {
    state = State::watching;
    if (joins) joins->kept(c, why);
    tell_kept(step, asked_at, why, predicted, out);
  }

  // Compiling.

  void compile() {
    state = State::compiling;
    next_cluster = ranks_of(*next, devices());
    LaunchOptions launching{.executor = executor_options};
    launching.executor.process_of = process_of(*next);
    next_options = launching.executor;
    compiled_beside =
        beside(has_spare_cores() ? nice_of_what_is_waited_for : 0, [this, launching, cluster = *next_cluster] {
          return means.compile(c.reference, next->program, cluster, launching);
        });
    // Where ranks use all of the cores, compiling beside them takes as long in all: they might as well wait.
    if (!has_spare_cores()) compiled_beside.wait();
  }

  /// Whether this process has cores besides those of its ranks.
  bool has_spare_cores() const {
    int ranks = 0;
    for (size_t rank = 0; rank < c.cluster.devices.size(); ++rank)
      ranks += c.cluster.devices[rank].kind == DeviceKind::cpu &&
               (!job || executor_options.process_of.at(rank) == job->process());
    return usable_cores() > ranks;
  }

  /// Each device stays with its process.
  ProcessOfRank process_of(const Plan& plan) const {
    ProcessOfRank out;
    if (!job) return out;
    for (const int rank : ranks_that_were(plan)) out.push_back(executor_options.process_of.at(size_t(rank)));
    return out;
  }

  /// By rank of the plan, this is the rank that runs on the same device now; -1 where none does.
  std::vector<int> ranks_that_were(const Plan& plan) const {
    std::vector<std::string> names;
    for (const PlanDevice& device : plan.devices) names.push_back(device.name);
    return hetsynth::ranks_that_were(executor.device_names(), names);
  }

  Migration migration_to(const Plan& plan) const {
    return migration_between(c.reference, c.plan.program, plan.program, ranks_that_were(plan), hosts_of(c.cluster),
                             hosts_of(ranks_of(plan, devices())));
  }

  void go_over_when_ready(BetweenSteps& out) {
    if (!compiled && failure.empty() && is_ready(compiled_beside)) {
      try {
        compiled = compiled_beside.get();
      } catch (const std::exception& error) {
        failure = error.what();
      }
    }
    std::optional<std::string> why =
        outcome_of_all(job, compiled || !failure.empty() ? std::optional(failure) : std::nullopt);
    if (!why) return;
    failure.clear();
    if (why->empty()) why = go_over(out);
    compiled.reset();
    if (!why->empty()) keep(*why, out);
  }

  /// Why not, if the ranks stay as they are.
  std::string go_over(BetweenSteps& out) {
    const Migration migration = migration_to(*next);
    const std::string flaw = flaw_of_migration(c.reference, c.plan.program, next->program, migration);
    HETSYNTH_CHECK(flaw.empty(), "a migration between two plans is right: " + flaw);
    std::vector<DeviceProgram> own;  // the source that is to be checked
    for (const RankProgram& rank : compiled->programs)
      if (!rank.layout.files.empty()) own.push_back(rank.layout);
    const double before = recent_with_all_columns();
    const double start = wall_seconds();
    try {
      if (compiled->meet) compiled->meet();
      executor.go_over(compiled->mesh, std::move(compiled->programs), migration, next_options);
    } catch (const UserError& error) {
      return error.what();
    }
    const double pause_seconds = wall_seconds() - start;
    const bool same_program = same_but_for_bounds(c.plan.program, next->program);
    tell_division(step, asked_at, *next, same_program, predicted, moved_bytes(c.reference, migration), pause_seconds,
                  out);
    if (joins) joins->divided(c, *next, step + 1);
    executor_options = next_options;
    c.plan = std::move(*next);
    c.cluster = *next_cluster;
    watch = SpeedWatch(expected());
    idle.assign(size_t(executor.ranks()), 0);
    last_change = step;
    looked_at = false;
    ++divisions_since_change;
    seconds_before = before;
    recent_seconds = 0;
    resized = {};
    if (leaving_out) leaving_out.emplace(c, executor, job);
    // The source of another program was checked before, and that of an unproved one is not checked at all.
    state = State::watching;
    if (same_program && proved) {
      if (unchecked.empty()) left_at = step;
      unchecked.add(c.plan, std::move(own));
    } else if (unchecked.empty()) {
      executor.stay();
    }
    return "";
  }

  // Checking.

  void stay_when_checked(bool wait) {
    if (unchecked.empty()) return;
    const std::string flaw = unchecked.go_on(wait);
    if (!flaw.empty()) take_back(flaw);
    if (unchecked.empty()) executor.stay();
  }

  [[noreturn]] void take_back(const std::string& why) {
    executor.go_back();
    const std::string where = kept_plan(unchecked.first(), c.reference);
    throw TakenBack(
        left_at + 1,
        fmt::format("the source of another division of the work does not do what its plan says: {}; the run "
                    "was taken back to the end of step {}. {}",
                    why, left_at, where));
  }

  RunOptions& options;
  Compilation& c;
  Executor& executor;
  ExecutorOptions executor_options;
  Job* const job;
  const BalanceMeans means;

  SourceChecksBeside unchecked;
  std::optional<DeviceJoins> joins;       ///< none of several processes
  std::optional<LeavingOut> leaving_out;  ///< of lossy balancing
  Resizing resized;                       ///< what ranks leave out now

  State state = State::watching;
  int64_t step = 0;  ///< the last
  SpeedWatch watch;
  std::vector<double> idle;   ///< seconds of a step, by rank: of the last few
  double recent_seconds = 0;  ///< of a step, likewise
  bool proved;
  bool looked_at = false;               ///< another division was looked for since speeds or the division changed
  int divisions_since_change = 0;       ///< of speeds
  double seconds_before = 0;            ///< of a step, before the division at hand
  int64_t last_change = 0;              ///< step of that change
  int64_t asked_at = 0;                 ///< step at which another division was asked for
  int64_t left_at = 0;                  ///< last step before the first of the unchecked divisions
  int searcher = 0;                     ///< process
  std::map<std::string, double> known;  ///< slowness by device
  PredictedSteps predicted;             ///< by what was found last

  std::atomic<bool> stop{false};
  std::optional<Plan> next;
  std::optional<Cluster> next_cluster;
  ExecutorOptions next_options;
  std::optional<CompiledRanks> compiled;
  std::string failure;  ///< of compiling
  // Last: they wait for their threads.
  std::future<NextDivision> found_beside;
  std::future<CompiledRanks> compiled_beside;
};

Balance::Balance(RunOptions& options, Executor& executor, const ExecutorOptions& executor_options, Job* job,
                 BalanceMeans means)
    : impl_(std::make_unique<Impl>(options, executor, executor_options, job, std::move(means))) {}
Balance::~Balance() = default;

BetweenSteps Balance::after(const StepReport& report) { return impl_->after(report); }
void Balance::settle() { impl_->settle(); }

}  // namespace hetsynth::cli
