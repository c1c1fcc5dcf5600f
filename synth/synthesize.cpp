#include "synth/synthesize.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <set>

#include "dsl/base/error.h"
#include "synth/baselines.h"
#include "synth/device_subsets.h"
#include "synth/ratios.h"
#include "synth/search.h"

namespace hetsynth {
namespace synth {
namespace {

constexpr int max_alternations = 6;

constexpr int price_steps = 5;
/// Memory beyond this many steps' time per memory-full decides everything; more would only make sums overflow.
constexpr double dearest_price = 1e3;

struct Candidate {
  Shares shares;
  Solution solution;
  Picoseconds bound = 0;   ///< of time, whatever the memory
  double excess = 0;       ///< largest multiple of a device's memory in use; at most 1 fits
  std::vector<char> over;  ///< by device: beyond its memory
};

class Synthesis {
 public:
  Synthesis(const Problem& problem, const SynthesisOptions& options)
      : problem_(problem), options_(options), started_(Clock::now()) {
    limits_.keep_going = [this] { return !out_of_time() && report("searching"); };
  }

  Plan run() {
    for (const std::vector<double>& fractions : starts()) {
      alternate(common_shares(problem_.classes, fractions));
      if (stopped_ || out_of_time()) break;
    }
    return finish();
  }

 private:
  using Clock = std::chrono::steady_clock;

  bool out_of_time() const {
    std::chrono::duration<double> spent = Clock::now() - started_;
    return options_.time_limit_seconds > 0 && spent.count() > options_.time_limit_seconds;
  }

  bool report(const std::string& progress) {
    if (options_.progress && !options_.progress(progress)) stopped_ = true;
    return !stopped_;
  }

  /// Fractions the alternation starts from. It can get stuck, so there are several.
  std::vector<std::vector<double>> starts() const {
    const auto& devices = problem_.cluster.devices;
    std::vector<std::vector<double>> starts{std::vector<double>(devices.size(), 1.0)};
    if (device_types(problem_.cluster).devices.size() < 2) return starts;
    starts.push_back(fractions_of(problem_, RatioRule::proportional));
    std::vector<double> flops, bandwidth, memory, fastest;
    for (const Device& d : devices) {
      flops.push_back(d.matmul_flops_per_second());
      bandwidth.push_back(d.memory_bytes_per_second());
      memory.push_back(double(d.memory_bytes));
    }
    double peak = *std::max_element(flops.begin(), flops.end());
    for (double f : flops) fastest.push_back(f == peak ? 1.0 : 0.0);
    for (const auto& start : {flops, bandwidth, memory, fastest})
      if (std::any_of(start.begin(), start.end(), [](double x) { return x > 0; })) starts.push_back(start);
    return starts;
  }

  /// Search at fixed shares, shares by linear programming for the program found, and again, until nothing improves.
  void alternate(Shares shares) {
    Candidate last;
    for (int round = 0; round < max_alternations && !stopped_ && seen_.insert(shares).second; ++round) {
      Candidate candidate = best_at(shares);
      if (round > 0 && !better(candidate, last)) return;
      last = candidate;
      if (better(candidate, best_)) best_ = candidate;
      report(fmt::format("best so far {:.4g} ms", to_seconds(best_.solution.cost) * 1e3));
      Conversions conversions(problem_.program, problem_.classes, problem_.rules, problem_.cost, shares);
      SpmdProgram spmd = lower(problem_, conversions, shares, candidate.solution.choices, axis_name);
      std::vector<CostTerm> terms = cost_terms(problem_, conversions, candidate.solution.choices);
      Fractions fractions = best_fractions(problem_, terms, spmd);
      if (fractions.empty()) return;
      shares = round_fractions(problem_, terms, fractions);
    }
  }

  /// The cheapest plan at these shares; if it does not fit into memory, the cheapest that a price on memory leads to.
  Candidate best_at(const Shares& shares) {
    Conversions conversions(problem_.program, problem_.classes, problem_.rules, problem_.cost, shares);
    Candidate candidate = searched(conversions, shares, 0, {});
    candidate.bound = candidate.solution.search.lower_bound;
    if (candidate.excess <= 1) return candidate;
    Picoseconds bound = candidate.bound;
    const std::vector<char> tight = candidate.over;
    // Picoseconds per byte at which the device's memory would cost as much as the step; then larger until it fits, then
    // smaller again.
    double unit = double(candidate.solution.cost) / double(std::max<int64_t>(1, smallest_memory()));
    double low = 0, high = 0;
    for (double price = unit / 64; price < unit * dearest_price && high == 0 && !stopped_; price *= 8) {
      Candidate next = searched(conversions, shares, price, tight);
      if (next.excess <= 1)
        high = price;
      else
        low = price;
      if (better(next, candidate)) candidate = next;
    }
    for (int step = 0; step < price_steps && high > 0 && !stopped_; ++step) {
      double price = low > 0 ? std::sqrt(low * high) : high / 8;
      Candidate next = searched(conversions, shares, price, tight);
      (next.excess <= 1 ? high : low) = price;
      if (better(next, candidate)) candidate = next;
    }
    candidate.bound = bound;
    return candidate;
  }

  int64_t smallest_memory() const {
    int64_t least = 0;
    for (const Device& device : problem_.cluster.devices)
      if (device.memory_bytes > 0 && (least == 0 || device.memory_bytes < least)) least = device.memory_bytes;
    return least;
  }

  Candidate searched(const Conversions& conversions, const Shares& shares, double price,
                     const std::vector<char>& tight) {
    SearchInput input;
    for (char over : tight) input.memory_price.push_back(over ? price : 0);
    Candidate candidate;
    candidate.shares = shares;
    candidate.solution = search(problem_, conversions, shares, input, limits_);
    HETSYNTH_CHECK(!candidate.solution.choices.empty(), "replicating everything is always a plan");
    SpmdProgram spmd = lower(problem_, conversions, shares, candidate.solution.choices, axis_name);
    std::vector<int64_t> peak = peak_memory(problem_, shares, spmd);
    for (size_t d = 0; d < peak.size(); ++d) {
      int64_t limit = problem_.cluster.devices[d].memory_bytes;
      double ratio = limit > 0 ? double(peak[d]) / double(limit) : 0;
      candidate.excess = std::max(candidate.excess, ratio);
      candidate.over.push_back(ratio > 1);
    }
    return candidate;
  }

  /// A plan that fits beats one that does not; then the cheaper one, or the one that is nearer to fitting.
  static bool better(const Candidate& a, const Candidate& b) {
    if (b.solution.choices.empty()) return true;
    bool a_fits = a.excess <= 1, b_fits = b.excess <= 1;
    if (a_fits != b_fits) return a_fits;
    return a_fits ? a.solution.cost < b.solution.cost : a.excess < b.excess;
  }

  Plan finish() {
    HETSYNTH_CHECK(!best_.solution.choices.empty(), "replicating everything is always a plan");
    Conversions conversions(problem_.program, problem_.classes, problem_.rules, problem_.cost, best_.shares);
    Plan plan = assemble(problem_, conversions, best_.shares, best_.solution.choices, device_fractions(), axis_name);
    // The bound is a sum of whole picoseconds.
    plan.prediction.lower_bound_seconds = std::min(to_seconds(best_.bound), plan.prediction.step_seconds);
    plan.prediction.optimal = best_.solution.cost == best_.bound;
    check_memory(problem_, plan.prediction, "the cheapest plan");
    return plan;
  }

  /// Each device's part of the floating-point work: what stands for the shares of all classes in one number.
  std::vector<double> device_fractions() const {
    std::vector<double> fractions(problem_.cost.device_count(), 0);
    double total = 0;
    for (const Node& node : problem_.program.nodes) {
      if (node.leaf()) continue;
      Work work = problem_.cost.work(node.id, problem_.rules.options[node.id][best_.solution.choices[node.id]]);
      for (size_t d = 0; d < fractions.size(); ++d) {
        double flops = problem_.cost.device_flops(work, best_.shares, int(d));
        fractions[d] += flops;
        total += flops;
      }
    }
    for (double& f : fractions) f = total > 0 ? f / total : 1.0 / double(fractions.size());
    return fractions;
  }

  static constexpr const char* axis_name = "dev";
  const Problem& problem_;
  const SynthesisOptions& options_;
  Clock::time_point started_;
  SearchLimits limits_;
  bool stopped_ = false;
  std::set<Shares> seen_;
  Candidate best_;
};

}  // namespace
}  // namespace synth

namespace {

/// Least seconds a step can take on these devices: all of its work spread without loss.
double ideal_seconds(const Program& reference, const Cluster& cluster) {
  synth::Problem problem(reference, cluster);
  double rate = 0;
  for (int d = 0; d < problem.cost.device_count(); ++d) {
    double seconds = 0;
    for (const Node& node : reference.nodes)
      if (!node.leaf()) seconds += problem.cost.device_seconds(problem.cost.work(node.id, {}), {}, d);
    if (seconds <= 0) return 0;
    rate += 1 / seconds;
  }
  return 1 / rate;
}

/// Plans of fewer devices that beat `best`, which uses all.
Plan drop_devices(const Program& reference, const Cluster& cluster, const SynthesisOptions& options,
                  std::optional<Plan> best, const UserError* infeasible) {
  auto consider = [&](auto make_plan) {
    try {
      Plan plan = make_plan();
      if (!best || plan.prediction.step_seconds < best->prediction.step_seconds) {
        plan.cluster_hash = hash_text(cluster);
        best = std::move(plan);
      }
    } catch (const UserError& error) {
      if (error.code() != ExitCode::infeasible) throw;
    }
  };
  std::vector<std::vector<int>> subsets = synth::device_subsets(cluster);
  consider([&] { return single_device_plan(reference, cluster); });
  for (size_t i = 1; i < subsets.size(); ++i) {
    Cluster part = synth::restricted(cluster, subsets[i]);
    if (best && ideal_seconds(reference, part) >= best->prediction.step_seconds) continue;
    consider([&] {
      synth::Problem problem(reference, part);
      return synth::Synthesis(problem, options).run();
    });
  }
  if (!best) throw *infeasible;
  return *best;
}

}  // namespace

Plan synthesize(const Program& reference, const Cluster& cluster, const SynthesisOptions& options) {
  synth::Problem problem(reference, cluster);
  std::optional<Plan> plan;
  std::optional<UserError> infeasible;
  try {
    plan = synth::Synthesis(problem, options).run();
  } catch (const UserError& error) {
    if (!options.drop_devices || error.code() != ExitCode::infeasible) throw;
    infeasible = error;
  }
  if (options.drop_devices && cluster.devices.size() > 1)
    plan = drop_devices(reference, cluster, options, std::move(plan), infeasible ? &*infeasible : nullptr);
  plan->prediction.baselines = synth::baselines(problem);
  return *plan;
}

}  // namespace hetsynth
