#include "synth/bounds/share_bound.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>
#include <utility>

#include "dsl/base/error.h"
#include "synth/network/plan_network.h"
#include "synth/shares/ratios.h"
#include "synth/support/parameters.h"
#include "synth/wcsp/solve_wcsp.h"

namespace hetsynth::synth {
namespace {

/// What the devices of each type may hold together of one class, in granules.
struct Branch {
  int class_id = -1;  ///< -1: any shares of all classes
  std::vector<int64_t> low, high;
  Picoseconds bound = 0;
  Choices choices{};  ///< of the bound, or nearly; may be empty
};

class BestShares {
 public:
  BestShares(const Problem& problem, const DeviceTypes& types, const Branch& branch)
      : problem_(problem), types_(types), branch_(branch) {
    HETSYNTH_CHECK(problem.mesh.axes.size() == 1, "the bound over all shares is for one axis");
    double sum = 0, least = HUGE_VAL;
    for (const Device& device : problem.cluster.devices) {
      sum += device.memory_bytes_per_second();
      least = std::min(least, device.memory_bytes_per_second());
    }
    slice_gain_ = double(problem.cluster.devices.size()) * least / sum;
    exchange_ = least_exchange();
    std::vector<int> on_host(problem.cluster.hosts.size(), 0);
    for (const Device& device : problem.cluster.devices) ++on_host[size_t(device.host)];
    const bool full = std::ranges::all_of(on_host, [&](int devices) { return devices == on_host[0]; });
    if (types.devices.size() == 1 && full) {
      const std::vector<double> even(problem.cluster.devices.size(), 1.0);
      even_ = common_shares(problem.classes, {even});
    }
  }

  /// The least time after which the parts that the devices can have done add up to the whole.
  Picoseconds operation(NodeId node, const Option& option) const {
    const Work work = problem_.cost.work(node, option);
    if (!option.splits()) {
      double slowest = 0;
      for (const auto& type : types_.devices) slowest = std::max(slowest, seconds(work, 1, type[0]));
      return to_picoseconds(slowest);
    }
    const int class_id = problem_.classes.factors[node][option.factor[0]];
    const int64_t granules = granules_of(class_id);
    if (types_.devices.size() == 1) {  // some device has as much as that
      const int64_t devices = problem_.cost.device_count(), most = (granules + devices - 1) / devices;
      return to_picoseconds(seconds(work, double(most) / double(granules), 0));
    }
    return to_picoseconds(seconds_divided(work, class_id));
  }

  Conversion conversion(NodeId node, const Form& from, const Form& to) const {
    return problem_.cost.repeated(conversion_once(node, from, to), node);
  }

 private:
  Conversion conversion_once(NodeId node, const Form& from, const Form& to) const {
    const int devices = problem_.cost.device_count();
    const double bytes = double(problem_.cost.bytes(node));
    if (even_is_best(node, from) && even_is_best(node, to))
      return problem_.cost.conversion(
          from, to, [&](const Form& form, int device) { return problem_.cost.local_bytes(node, form, even_, device); });
    auto class_of = [&](const Form& form) { return problem_.classes.dims[node][form.on[0].dim]; };
    auto evenly = [&](const Form& form, int) {
      return bytes / (form.on[0].sharded() ? devices : 1) + bytes * form.on[0].overlap();
    };
    Conversion made = problem_.cost.conversion(from, to, evenly);
    // Gathering and scattering wait for the largest or the smallest shard: both are best if no two differ by more than
    // a granule, as far as the branch allows.
    if (made.opcode == Opcode::all_gather || made.opcode == Opcode::reduce_scatter) {
      made = problem_.cost.conversion(from, to, [&](const Form& form, int device) {
        if (!form.on[0].sharded()) return bytes;
        const int64_t granules = granules_of(class_of(form));
        const size_t type = size_t(types_.type_of[size_t(device)]);
        const int64_t even = granules / devices + (device < granules % devices);
        const int64_t held =
            std::max(least_of_device(class_of(form), type), std::min(most_of_device(class_of(form), type), even));
        return bytes * double(held) / double(granules);
      });
      if (made.possible) made.cost = std::min(made.cost, least_hierarchical(made.opcode, bytes));
      return made;
    }
    if (!made.possible) return made;
    if (made.opcode == Opcode::slice) made.cost = Picoseconds(double(made.cost) * slice_gain_);
    if (made.opcode == Opcode::all_to_all)
      made.cost = std::min(seconds_of(exchange_, bytes), least_hierarchical(made.opcode, bytes));
    if (branch_.class_id < 0) return made;
    const Conversion least = problem_.cost.conversion(from, to, [&](const Form& form, int device) {
      if (!form.on[0].sharded()) return bytes;
      const int64_t held = least_of_device(class_of(form), size_t(types_.type_of[size_t(device)]));
      return bytes * (double(held) / double(granules_of(class_of(form))) + form.on[0].overlap());
    });
    made.cost = std::max(made.cost, least.cost);
    return made;
  }

  /// What a direct all-to-all takes at least: whatever devices hold, together they move (n-1)/n of the tensor over all
  /// devices' links inside of hosts, and over all hosts' links to others.
  Line least_exchange() const {
    const Cluster& cluster = problem_.cluster;
    const double hops = double(cluster.devices.size()) - 1, moved = hops / (hops + 1);
    double inside = 0;
    for (const Device& device : cluster.devices)
      inside += cluster.hosts[size_t(device.host)].inside.bandwidth_bytes_per_second;
    const double leaving = cluster.hosts.size() > 1 ? moved / cluster.outside_bandwidth() : 0;
    return {hops * problem_.cost.link(0, 0).latency_seconds, std::max(leaving, moved / inside)};
  }

  /// Hierarchically what hosts hold counts, which may be best at other shares than even ones.
  Picoseconds least_hierarchical(Opcode opcode, double bytes) const {
    const CommunicationCost& communication = problem_.cost.communication();
    if (!communication.has_levels(0)) return forbidden;
    const Line least = communication.least_hierarchical(opcode, 0, 0, bytes);
    return seconds_of(least, bytes);
  }

  /// Rounded down by more than what sums of such numbers are off.
  static Picoseconds seconds_of(const Line& least, double bytes) {
    return to_picoseconds((least.fixed + least.per_byte * bytes) * (1 - 1e-9));
  }

  /// Where devices and hosts are alike, may trade places, and can have equal shares: costs are convex in these.
  bool even_is_best(NodeId node, const Form& form) const {
    if (even_.empty()) return false;
    return !form.on[0].sharded() ||
           granules_of(problem_.classes.dims[node][form.on[0].dim]) % problem_.cost.device_count() == 0;
  }

  double seconds(const Work& work, double part, int device) const {
    Parts parts = whole_part;
    parts[0] = part;
    return problem_.cost.device_seconds(work, parts, device);
  }

  int64_t granules_of(int class_id) const { return problem_.classes.classes[size_t(class_id)].granules; }

  /// What the device of a type that holds most holds at least, and the one that holds least at most.
  int64_t least_of_device(int class_id, size_t type) const {
    const int64_t size = int64_t(types_.devices[type].size());
    return class_id == branch_.class_id ? (branch_.low[type] + size - 1) / size : 0;
  }
  int64_t most_of_device(int class_id, size_t type) const {
    const int64_t size = int64_t(types_.devices[type].size());
    return class_id == branch_.class_id ? branch_.high[type] / size : granules_of(class_id);
  }

  /// Seconds of work that is divided among unequal devices, up to `bound_precision`.
  double seconds_divided(const Work& work, int class_id) const {
    const int64_t granules = granules_of(class_id);
    double low = 0, high = 0;  // the least that types must do; all of it on each of them
    within_.clear();
    for (size_t t = 0; t < types_.devices.size(); ++t) {
      const int device = types_.devices[t][0];
      low = std::max(low, seconds(work, double(least_of_device(class_id, t)) / double(granules), device));
      high = std::max(high, seconds(work, 1, device));
      within_.push_back(problem_.cost.part_within(work, whole_part, 0, device));
    }
    const auto done = [&](double time) { return granules_done_within(time, class_id) >= granules; };
    if (done(low)) return low;
    for (int i = 0; i < most_halvings && high - low > bound_precision * high; ++i) {
      const double middle = (low + high) / 2;
      (done(middle) ? high : low) = middle;
    }
    return low;
  }

  /// Granules of the work at hand that all devices together can have done by then, or more.
  int64_t granules_done_within(double time, int class_id) const {
    const int64_t granules = granules_of(class_id);
    int64_t sum = 0;
    for (size_t t = 0; t < types_.devices.size(); ++t) {
      const int64_t done =
          int64_t(within_[t](time) * double(granules) * (1 + 1e-9) + 1e-9) * int64_t(types_.devices[t].size());
      sum += class_id == branch_.class_id ? std::min(done, branch_.high[t]) : done;
    }
    return sum;
  }

  const Problem& problem_;
  const DeviceTypes& types_;
  const Branch& branch_;
  double slice_gain_ = 1;                   ///< least over even shares' cost: by memory bandwidth
  Line exchange_;                           ///< the least that an all-to-all takes directly
  Shares even_;                             ///< unless devices or hosts differ
  mutable std::vector<PartWithin> within_;  ///< by type: what a device can do of the work at hand
};

/// Costs where every instruction takes the shares of the branch that suit it.
class CostsWithin {
 public:
  CostsWithin(const Problem& problem, const DeviceTypes& types, const Branch& branch)
      : problem_(problem),
        best_(problem, types, branch),
        conversions_(*problem.analysis, [this](NodeId node, const Form& from, const Form& to) {
          return best_.conversion(node, from, to);
        }) {}

  PlanNetwork network() const {
    SearchInput input;
    input.pins = &problem_.pins;
    input.operation_cost = operation();
    return build_network(problem_, conversions_, {}, input);
  }
  Picoseconds of(const Choices& choices) const { return total_cost(problem_, conversions_, choices, operation()); }

 private:
  std::function<Picoseconds(NodeId, const Option&)> operation() const {
    return [this](NodeId node, const Option& option) { return best_.operation(node, option); };
  }

  const Problem& problem_;
  const BestShares best_;
  const Conversions conversions_;
};

/// What one type holds follows from what the others may. False if nothing is left.
bool narrow(Branch* branch, int64_t granules) {
  const auto sum = [](const std::vector<int64_t>& v) { return std::accumulate(v.begin(), v.end(), int64_t(0)); };
  for (size_t t = 0; t < branch->low.size(); ++t) {
    branch->low[t] = std::max(branch->low[t], granules - (sum(branch->high) - branch->high[t]));
    branch->high[t] = std::min(branch->high[t], granules - (sum(branch->low) - branch->low[t]));
    if (branch->low[t] > branch->high[t]) return false;
  }
  return true;
}

/// The branch in two or three by what devices of a type hold: what is close to `held` becomes a narrow one, where the
/// bound soon comes near the cost of the plan that holds so much, and far from there hardly any plan is as fast. In the
/// middle if `held` is negative or elsewhere. The part that has `held` comes last.
std::vector<Branch> divided(const Branch& branch, size_t type, int64_t held) {
  const int64_t low = branch.low[type], high = branch.high[type], reach = (high - low) / parts_of_width;
  std::vector<int64_t> ends{low + (high - low) / 2};
  if (held >= low && held <= high && reach > 0) ends = {held - reach - 1, held + reach};
  std::vector<Branch> out;
  int64_t begin = low;
  ends.push_back(high);
  for (int64_t end : ends) {
    end = std::min(end, high);
    if (end < begin) continue;
    out.push_back(branch);
    out.back().low[type] = std::exchange(begin, end + 1);
    out.back().high[type] = end;
  }
  std::ranges::stable_partition(out,
                                [&](const Branch& part) { return held < part.low[type] || held > part.high[type]; });
  return out;
}

}  // namespace

PlanNetwork network_over_shares(const Problem& problem) {
  const DeviceTypes types = device_types(problem.cluster);
  const Branch any;
  return CostsWithin(problem, types, any).network();
}

Picoseconds tighter_bound_over_shares(const Problem& problem, int class_id, Picoseconds root, Picoseconds cost,
                                      double tolerance, int most, const StopToken& stop, const Choices& of_root,
                                      const LearntMessages* learnt, const Shares& of_cost) {
  const DeviceTypes types = device_types(problem.cluster);
  const int64_t granules = problem.classes.classes[size_t(class_id)].granules;
  const auto enough = [&](Picoseconds bound) { return double(bound) >= double(cost) * (1 - tolerance); };
  const auto later = [](const Branch& a, const Branch& b) { return a.bound > b.bound; };
  const bool near = !of_cost.empty() && double(cost) < double(root) * (1 + near_plan);
  std::vector<int64_t> held(types.devices.size(), near ? 0 : -1);  // by the devices of each type in the plan at hand
  for (size_t d = 0; near && d < types.type_of.size(); ++d)
    held[size_t(types.type_of[d])] += of_cost[0][size_t(class_id)][d];
  std::priority_queue<Branch, std::vector<Branch>, decltype(later)> open(later);
  open.push({class_id, std::vector<int64_t>(types.devices.size(), 0),
             std::vector<int64_t>(types.devices.size(), granules), root, of_root});
  const int at_once = near ? most_parts_of_branch : 2;
  for (int searches = 0; searches + at_once <= most && !enough(open.top().bound) && !stop.stopped();) {
    const Branch branch = open.top();
    size_t widest = 0;
    const auto width = [&](size_t t) { return branch.high[t] - branch.low[t]; };
    for (size_t t = 1; t < types.devices.size(); ++t)
      if (width(t) > width(widest)) widest = t;
    if (width(widest) == 0) break;
    open.pop();
    // After the last searches only the least bound counts.
    const bool last = searches + 2 * at_once > most;
    Picoseconds wanted = last && !open.empty() ? std::min(cost, open.top().bound) : cost;
    for (Branch& part : divided(branch, widest, held[widest])) {
      if (!narrow(&part, granules)) continue;
      ++searches;
      const CostsWithin costs(problem, types, part);
      // What is as good there as in the whole branch leaves nothing to raise the bound by.
      if (!branch.choices.empty() &&
          double(costs.of(branch.choices)) <= double(branch.bound) * (1 + 2 * bound_precision)) {
        if (last) return std::min(cost, branch.bound);
        open.push(part);
        continue;
      }
      const PlanNetwork network = costs.network();
      SearchLimits limits = limits_of(problem, stop, branch_precision);
      limits.cost_to_beat = cutoff_for_tolerance(wanted, branch_precision);
      limits.guesses = false;
      Minimisation minimisation(network.network, limits, learnt, learnt ? named_values(network) : NamedValues{});
      const SearchResult found = minimisation.finish(limits.cost_to_beat);
      part.bound = std::max(branch.bound, found.lower_bound);
      if (last) wanted = std::min(wanted, part.bound);
      part.choices = found.found() ? choices_of(problem, found.assignment) : Choices{};
      open.push(part);
    }
  }
  return std::min(cost, open.top().bound);
}

}  // namespace hetsynth::synth
