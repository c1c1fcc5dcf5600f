#include "synth/share_bound.h"

#include <algorithm>
#include <cmath>

#include "dsl/base/error.h"
#include "synth/minimise.h"
#include "synth/plan_network.h"
#include "synth/ratios.h"

namespace hetsynth::synth {
namespace {

/// Bisections end this near to the bound, below it.
constexpr double precision = 1e-4;
constexpr int most_halvings = 60;

class BestShares {
 public:
  explicit BestShares(const Problem& problem) : problem_(problem), types_(device_types(problem.cluster)) {
    HETSYNTH_CHECK(problem.mesh.axes.size() == 1, "the bound over all shares is for one axis");
    double sum = 0, least = HUGE_VAL;
    for (const Device& device : problem.cluster.devices) {
      sum += device.memory_bytes_per_second();
      least = std::min(least, device.memory_bytes_per_second());
    }
    slice_gain_ = double(problem.cluster.devices.size()) * least / sum;
    std::vector<double> on_host(problem.cluster.hosts.size(), 0);
    for (const Device& device : problem.cluster.devices) ++on_host[size_t(device.host)];
    host_gain_ = double(problem.cluster.devices.size()) / double(on_host.size()) /
                 *std::max_element(on_host.begin(), on_host.end());
  }

  /// The least time after which the parts that the devices can have done add up to the whole.
  Picoseconds operation(NodeId node, const Option& option) const {
    const Work work = problem_.cost.work(node, option);
    const int devices = problem_.cost.device_count();
    if (!option.splits()) {
      double slowest = 0;
      for (const auto& type : types_.devices) slowest = std::max(slowest, seconds(work, 1, type[0]));
      return to_picoseconds(slowest);
    }
    const int64_t granules = granules_of(problem_.classes.factors[node][option.factor[0]]);
    const int64_t even = (granules + devices - 1) / devices;
    double high = 0;  // at even shares
    for (const auto& type : types_.devices)
      high = std::max(high, seconds(work, double(even) / double(granules), type[0]));
    double low = 0;
    for (int i = 0; i < most_halvings && high - low > precision * high; ++i) {
      double middle = (low + high) / 2;
      (granules_done_within(work, granules, middle) >= granules ? high : low) = middle;
    }
    return to_picoseconds(low);
  }

  Conversion conversion(NodeId node, const Form& from, const Form& to) const {
    const int devices = problem_.cost.device_count();
    const double bytes = double(problem_.cost.bytes(node));
    auto held = [&](const Form& form, int) { return bytes / (form.on[0].sharded() ? devices : 1); };
    Conversion made = problem_.cost.conversion(from, to, held);
    // Gathering and scattering wait for the largest or the smallest shard: both are best if no two differ by more than
    // a granule.
    if (made.opcode == Opcode::all_gather || made.opcode == Opcode::reduce_scatter) {
      auto held_whole = [&](const Form& form, int device) {
        if (!form.on[0].sharded()) return bytes;
        const int64_t granules = granules_of(problem_.classes.dims[node][form.on[0].dim]);
        return bytes * double(granules / devices + (device < granules % devices)) / double(granules);
      };
      return problem_.cost.conversion(from, to, held_whole);
    }
    double gain = made.opcode == Opcode::slice ? slice_gain_ : made.opcode == Opcode::all_to_all ? host_gain_ : 1;
    if (made.possible) made.cost = Picoseconds(double(made.cost) * gain);
    return problem_.cost.repeated(made, node);
  }

 private:
  double seconds(const Work& work, double part, int device) const {
    Parts parts = whole_part;
    parts[0] = part;
    return problem_.cost.device_seconds(work, parts, device);
  }

  int64_t granules_of(int class_id) const { return problem_.classes.classes[size_t(class_id)].granules; }

  /// Granules of the work that all devices together can have done by then, or more.
  int64_t granules_done_within(const Work& work, int64_t granules, double time) const {
    int64_t sum = 0;
    for (const auto& type : types_.devices) {
      double low = 0, high = 1;
      if (seconds(work, 1, type[0]) <= time) low = 1;
      for (int i = 0; i < most_halvings && low < 1 && high - low > precision / 4 * high; ++i) {
        double middle = (low + high) / 2;
        (seconds(work, middle, type[0]) <= time ? low : high) = middle;
        if (high < precision / double(problem_.cost.device_count())) break;
      }
      const double part = low < 1 ? high : 1;
      sum += int64_t(part * double(granules) * (1 + 1e-12) + 1e-9) * int64_t(type.size());
    }
    return sum;
  }

  const Problem& problem_;
  DeviceTypes types_;
  double slice_gain_ = 1;  ///< least over even shares' cost: by memory bandwidth
  double host_gain_ = 1;   ///< of an all-to-all between hosts of unequal numbers of devices
};

}  // namespace

Picoseconds bound_over_shares(const Problem& problem, const Stop& stop) {
  BestShares best(problem);
  Conversions conversions(*problem.analysis, [&](NodeId node, const Form& from, const Form& to) {
    return best.conversion(node, from, to);
  });
  SearchInput input;
  input.pins = &problem.pins;
  input.operation_cost = [&](NodeId node, const Option& option) { return best.operation(node, option); };
  SearchLimits limits;
  limits.stop = stop;
  limits.tolerance = precision;
  return minimise(build_network(problem, conversions, {}, input).network, limits).lower_bound;
}

}  // namespace hetsynth::synth
