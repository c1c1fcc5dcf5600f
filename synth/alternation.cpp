#include "synth/alternation.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "dsl/base/error.h"
#include "synth/baselines.h"
#include "synth/ratios.h"
#include "synth/search.h"

namespace hetsynth::synth {
namespace {

constexpr int max_alternations = 6;
constexpr int price_steps = 5;
/// Memory beyond this many steps' time per memory-full decides everything; more would only make sums overflow.
constexpr double dearest_price = 1e3;

struct Candidate {
  Shares shares;
  Choices choices;
  Picoseconds cost = forbidden;
  Picoseconds bound = 0;  ///< of time, whatever the memory
  std::shared_ptr<const SpmdProgram> spmd;
  double excess = 0;       ///< largest multiple of a device's memory in use; at most 1 fits
  std::vector<char> over;  ///< by device: beyond its memory
  bool empty() const { return choices.empty(); }
  bool fits() const { return excess <= 1; }
};

/// A plan that fits beats one that does not; then the cheaper one, or the one that is nearer to fitting.
bool better(const Candidate& a, const Candidate& b) {
  if (a.empty() || b.empty()) return !a.empty();
  if (a.fits() != b.fits()) return a.fits();
  return a.fits() ? a.cost < b.cost : a.excess < b.excess;
}

class Alternation {
 public:
  Alternation(const Problem& problem, Budget& budget, double seconds_to_beat) : problem_(problem), budget_(budget) {
    limits_.stop = budget.stop();
    rough_.stop = budget.stop();
    rough_.tolerance = 2e-3;
    rough_.most_sweeps = 48;
    rough_.table_limit = 1e6;
    rough_.expansion_limit = 100'000;
    if (several_axes()) limits_.cost_to_beat = to_picoseconds(seconds_to_beat);
  }

  std::optional<Plan> run() {
    for (const std::vector<double>& by_device : starts()) {
      if (budget_.spent()) break;
      alternate(common_shares(problem_.classes, axis_fractions(problem_, by_device)));
    }
    if (!several_axes() && (best_.empty() || (budget_.spent() && !best_.fits()))) add_unsearched();
    if (best_.empty()) return std::nullopt;
    return finish();
  }

 private:
  bool several_axes() const { return problem_.mesh.axes.size() > 1; }

  /// Fractions by device that the alternation starts from. It can get stuck, so there are several.
  std::vector<std::vector<double>> starts() const {
    const auto& devices = problem_.cluster.devices;
    std::vector<std::vector<double>> starts{std::vector<double>(devices.size(), 1.0)};
    if (device_types(problem_.cluster).devices.size() < 2) return starts;
    starts.push_back(device_speeds(problem_));
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
    // Devices of one type share evenly; on several axes the starts are all there is.
    bool once = several_axes() || device_types(problem_.cluster).devices.size() < 2;
    for (int round = 0; round < max_alternations && !budget_.spent() && seen_.insert(shares).second; ++round) {
      Conversions conversions(*problem_.analysis, problem_.cost, shares);
      Candidate candidate = best_at(conversions, shares);
      if (candidate.empty() || (round > 0 && !better(candidate, last))) return;
      keep(candidate);
      if (once) return;
      std::vector<CostTerm> terms = cost_terms(problem_, conversions, candidate.choices);
      Fractions fractions = best_fractions(problem_, terms, *candidate.spmd);
      if (fractions.empty()) return;
      shares = round_fractions(problem_, terms, fractions);
      last = std::move(candidate);
    }
  }

  void keep(const Candidate& candidate) {
    if (!better(candidate, best_)) return;
    best_ = candidate;
    if (best_.fits()) budget_.found(to_seconds(best_.cost), to_seconds(std::min(best_.bound, best_.cost)));
  }

  /// The cheapest plan at these shares; if it does not fit into memory, the cheapest that a price on memory leads to.
  Candidate best_at(const Conversions& conversions, const Shares& shares) {
    Candidate candidate = searched(conversions, shares, 0, {});
    if (candidate.empty() || candidate.fits()) return candidate;
    Picoseconds bound = candidate.bound;
    const std::vector<char> tight = candidate.over;
    // Picoseconds per byte at which the device's memory would cost as much as the step; then larger until it fits, then
    // smaller again.
    double unit = double(candidate.cost) / double(std::max<int64_t>(1, smallest_memory()));
    double low = 0, high = 0;
    for (double price = unit / 64; price < unit * dearest_price && high == 0 && !budget_.spent(); price *= 8) {
      Candidate next = searched(conversions, shares, price, tight);
      if (next.empty()) break;  // so dear that every sum is beyond what counts as possible
      (next.fits() ? high : low) = price;
      if (better(next, candidate)) candidate = next;
    }
    for (int step = 0; step < price_steps && high > 0 && !budget_.spent(); ++step) {
      double price = low > 0 ? std::sqrt(low * high) : high / 8;
      Candidate next = searched(conversions, shares, price, tight);
      (!next.empty() && next.fits() ? high : low) = price;
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

  /// Empty if the search was stopped before it met a plan, or if the price lifts all plans beyond what counts as
  /// possible.
  Candidate searched(const Conversions& conversions, const Shares& shares, double price,
                     const std::vector<char>& tight) {
    SearchInput input;
    for (char over : tight) input.memory_price.push_back(over ? price : 0);
    Solution solution = search(problem_, conversions, shares, input, price > 0 ? rough_ : limits_);
    budget_.searched();
    if (solution.choices.empty()) {
      HETSYNTH_CHECK(price > 0 || budget_.spent() || several_axes(), "replicating everything is always a plan");
      return {};
    }
    Candidate candidate = priced(conversions, shares, std::move(solution.choices), solution.cost);
    candidate.bound = solution.search.lower_bound;
    return candidate;
  }

  Candidate priced(const Conversions& conversions, const Shares& shares, Choices choices, Picoseconds cost) const {
    Candidate candidate;
    candidate.shares = shares;
    candidate.cost = cost;
    candidate.spmd = std::make_shared<SpmdProgram>(lower(problem_, conversions, shares, choices));
    candidate.choices = std::move(choices);
    std::vector<int64_t> peak = peak_memory(problem_, shares, *candidate.spmd);
    for (size_t d = 0; d < peak.size(); ++d) {
      int64_t limit = problem_.cluster.devices[d].memory_bytes;
      double ratio = limit > 0 ? double(peak[d]) / double(limit) : 0;
      candidate.excess = std::max(candidate.excess, ratio);
      candidate.over.push_back(ratio > 1);
    }
    return candidate;
  }

  /// Data parallelism and full replication: there without a search.
  void add_unsearched() {
    for (RatioRule rule : {RatioRule::proportional, RatioRule::even}) {
      Shares shares = common_shares(problem_.classes, fractions_of(problem_, rule));
      Conversions conversions(*problem_.analysis, problem_.cost, shares);
      for (const Choices& choices : {data_parallel_choices(problem_), replicated_choices(problem_)})
        keep(priced(conversions, shares, choices, total_cost(problem_, conversions, shares, choices)));
    }
  }

  Plan finish() {
    Conversions conversions(*problem_.analysis, problem_.cost, best_.shares);
    Plan plan = assemble(problem_, conversions, best_.shares, best_.choices, axis_fractions(problem_, device_work()));
    // The bound is a sum of whole picoseconds.
    plan.prediction.lower_bound_seconds = std::min(to_seconds(best_.bound), plan.prediction.step_seconds);
    plan.prediction.optimal = best_.cost == best_.bound;
    check_memory(problem_, plan.prediction,
                 budget_.spent() ? "the best plan found in the time given" : "the cheapest plan");
    return plan;
  }

  /// Each device's floating-point work: what stands for the shares of all classes in one number.
  std::vector<double> device_work() const {
    std::vector<double> flops(problem_.cost.device_count(), 0);
    double total = 0;
    for (const Node& node : problem_.program.nodes) {
      if (node.leaf()) continue;
      Work work = problem_.cost.work(node.id, problem_.rules.options[node.id][best_.choices[node.id]]);
      for (size_t d = 0; d < flops.size(); ++d) flops[d] += problem_.cost.device_flops(work, best_.shares, int(d));
    }
    for (double f : flops) total += f;
    return total > 0 ? flops : std::vector<double>(flops.size(), 1.0);
  }

  const Problem& problem_;
  Budget& budget_;
  SearchLimits limits_;
  SearchLimits rough_;  ///< under a price on memory, which is itself a guess
  std::set<Shares> seen_;
  Candidate best_;
};

}  // namespace

std::optional<Plan> best_plan(const Problem& problem, Budget& budget, double seconds_to_beat) {
  return Alternation(problem, budget, seconds_to_beat).run();
}

}  // namespace hetsynth::synth
