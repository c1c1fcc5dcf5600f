#include "synth/synthesize.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "dsl/base/error.h"
#include "synth/baselines.h"
#include "synth/ratios.h"
#include "synth/search.h"

namespace hetsynth {
namespace synth {
namespace {

constexpr int max_alternations = 6;

struct Candidate {
  Shares shares;
  Solution solution;
  bool fits = false;
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
    Picoseconds last = forbidden;
    for (int round = 0; round < max_alternations && !stopped_; ++round) {
      Conversions conversions(problem_.program, problem_.classes, problem_.rules, problem_.cost, shares);
      Solution solution = search(problem_, conversions, shares, {}, limits_);
      if (solution.choices.empty() || solution.cost >= last) return;
      last = solution.cost;
      SpmdProgram spmd = lower(problem_, conversions, shares, solution.choices, axis_name);
      keep({shares, solution, fits(spmd)});
      report(fmt::format("best so far {:.4g} ms", to_seconds(best_.solution.cost) * 1e3));
      std::vector<CostTerm> terms = cost_terms(problem_, conversions, solution.choices);
      Fractions fractions = best_fractions(problem_, terms, spmd);
      if (fractions.empty()) return;
      Shares next = round_fractions(problem_, terms, fractions);
      if (next == shares) return;
      shares = std::move(next);
    }
  }

  bool fits(const SpmdProgram& spmd) const {
    std::vector<int64_t> peak = peak_memory(problem_, spmd);
    for (size_t d = 0; d < peak.size(); ++d) {
      int64_t limit = problem_.cluster.devices[d].memory_bytes;
      if (limit > 0 && peak[d] > limit) return false;
    }
    return true;
  }

  /// A plan that fits beats one that does not; then the cheaper one.
  void keep(Candidate candidate) {
    if (best_.solution.choices.empty() || (candidate.fits && !best_.fits) ||
        (candidate.fits == best_.fits && candidate.solution.cost < best_.solution.cost))
      best_ = std::move(candidate);
  }

  Plan finish() {
    HETSYNTH_CHECK(!best_.solution.choices.empty(), "replicating everything is always a plan");
    Conversions conversions(problem_.program, problem_.classes, problem_.rules, problem_.cost, best_.shares);
    Plan plan = assemble(problem_, conversions, best_.shares, best_.solution.choices, device_fractions(), axis_name);
    // The bound is a sum of whole picoseconds.
    plan.prediction.lower_bound_seconds =
        std::min(to_seconds(best_.solution.search.lower_bound), plan.prediction.step_seconds);
    plan.prediction.optimal = best_.solution.search.optimal();
    check_memory(problem_, plan.prediction, "the cheapest plan");
    plan.prediction.baselines = baselines(problem_);
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
  Candidate best_;
};

}  // namespace
}  // namespace synth

Plan synthesize(const Program& reference, const Cluster& cluster, const SynthesisOptions& options) {
  synth::Problem problem(reference, cluster);
  return synth::Synthesis(problem, options).run();
}

}  // namespace hetsynth
