#include "synth/bounds/mesh_bound.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "synth/bounds/share_bound.h"
#include "synth/shares/ratios.h"
#include "synth/support/parameters.h"

namespace hetsynth::synth {
namespace {

/// Bytes of a tensor that decide which of several unlike hosts is taken for the slowest.
constexpr double typical_bytes = 1 << 24;

/// Devices that get one part of what is divided: one coordinate of an axis, or one of several axes.
struct Portion {
  std::vector<int> devices;  ///< one of each type
  int count = 1;             ///< portions like this one
  bool operator==(const Portion& other) const { return devices == other.devices; }
};

class BestShares {
 public:
  explicit BestShares(const Problem& problem)
      : problem_(problem), types_(device_types(problem.cluster)), axes_(int(problem.mesh.axes.size())) {
    for (int axis = 0; axis < axes_; ++axis) {
      if (varies_along(axis)) ++varying_, varying_axis_ = axis;
      groups_.push_back(groups_along(axis));
    }
    outside_bandwidth_ = problem.cluster.outside_bandwidth();
  }

  /// The least time after which the parts that the devices can have done add up to the whole.
  Picoseconds operation(NodeId node, const Option& option) {
    Work work = problem_.cost.work(node, option);
    work.class_id = {};
    int axes = 0;
    for (int axis = 0; axis < axes_; ++axis) axes |= option.factor[size_t(axis)] >= 0 ? 1 << axis : 0;
    auto [it, fresh] = operations_.try_emplace({work, axes}, 0);
    if (fresh) it->second = operation(work, axes);
    return it->second;
  }

  Conversion conversion(NodeId node, const Form& from, const Form& to) {
    ConversionKey key{problem_.cost.bytes(node)};
    for (size_t axis = 0; axis < size_t(axes_); ++axis) {
      const AxisForm &before = from.on[axis], &after = to.on[axis];
      key[axis + 1] = int(before.kind) * 16 + int(after.kind) * 2 + (before == after);
      if (after.overlaps()) key[axis + 1] += 128 * (after.before + after.after + (after.extent << 24));
    }
    key.back() = from.nested() * 2 + to.nested();
    auto [it, fresh] = conversions_.try_emplace(key);
    if (fresh) it->second = conversion(double(key[0]), from, to);
    return problem_.cost.repeated(it->second, node);
  }

 private:
  /// Bytes of a tensor, by axis what becomes of its form, and whether two axes cut one dimension.
  using ConversionKey = std::array<int64_t, 2 + max_axes>;

  /// `axes`: those that divide it, a bit each.
  Picoseconds operation(const Work& work, int axes) {
    Parts even = whole_part;
    std::vector<int> divided;
    for (int axis = 0; axis < axes_; ++axis)
      if (axes >> axis & 1) {
        divided.push_back(axis);
        even[size_t(axis)] = 1.0 / problem_.mesh.axes[size_t(axis)].size;
      }
    double high = 0;  // at even shares
    for (const auto& type : types_.devices) high = std::max(high, problem_.cost.device_seconds(work, even, type[0]));
    const bool varying = std::find(divided.begin(), divided.end(), varying_axis_) != divided.end();
    if (divided.empty() || varying_ == 0 || (varying_ == 1 && !varying)) return to_picoseconds(high);
    // Along the other axes devices are alike and even shares the best; where types vary along several axes, parts count
    // as if each were the product of the shares that it is cut by, which they are at least.
    Work merged = work;
    int solved = varying_axis_;
    if (varying_ > 1) {
      solved = 0;
      even = whole_part;
      for (auto* parts : {&merged.flops, &merged.bytes})
        for (size_t cuts = 2; cuts < parts->size(); ++cuts) (*parts)[1] += std::exchange((*parts)[cuts], 0.0);
    } else {
      divided = {varying_axis_};
    }
    const std::vector<Portion>& portions = portions_along(divided);
    std::vector<PartWithin> within;  // by type
    for (const auto& type : types_.devices) within.push_back(problem_.cost.part_within(merged, even, solved, type[0]));
    double low = 0;
    for (int i = 0; i < most_halvings && high - low > bound_precision * high; ++i) {
      double middle = (low + high) / 2;
      (done_within(middle, within, portions) >= 1 ? high : low) = middle;
    }
    return to_picoseconds(low * (1 - rounding));
  }

  Conversion conversion(double bytes, const Form& from, const Form& to) {
    // For the opcode and its realisation; the cost is replaced.
    Conversion made = problem_.cost.conversion(from, to, [&](const Form& form, int) {
      double held = bytes;
      for (int axis = 0; axis < axes_; ++axis)
        if (const AxisForm& on = form.on[size_t(axis)]; on.sharded())
          held *= 1.0 / problem_.mesh.axes[size_t(axis)].size + on.overlap();
      return held;
    });
    if (!made.possible) return made;
    const double seconds = made.opcode == Opcode::slice        ? in_memory(2 * bytes, to)
                           : made.opcode == Opcode::to_partial ? in_memory(bytes, to)
                           : made.opcode == Opcode::halo_exchange
                               ? halo_exchange(made.axis, bytes, from, to.on[size_t(made.axis)].overlap())
                               : collective(made, bytes, from);
    made.cost = std::min(made.cost, to_picoseconds(seconds * (1 - rounding)));
    return made;
  }

  /// Sums in floating point that are equal to the cost model's only up to this.
  static constexpr double rounding = 1e-9;

  /// Whether devices that differ in this coordinate alone can be of different types.
  bool varies_along(int axis) const {
    for (int d = 0; d < problem_.cost.device_count(); ++d)
      for (int other : problem_.mesh.group(d, axis))
        if (types_.type_of[size_t(other)] != types_.type_of[size_t(d)]) return true;
    return false;
  }

  /// By the coordinates of some axes.
  const std::vector<Portion>& portions_along(const std::vector<int>& axes) {
    auto [it, fresh] = portions_.try_emplace(axes);
    if (!fresh) return it->second;
    std::map<std::vector<int>, std::map<int, int>> devices;  // coordinates -> type -> device
    for (int d = 0; d < problem_.cost.device_count(); ++d) {
      std::vector<int> at;
      for (int axis : axes) at.push_back(problem_.cost.coordinate(d, axis));
      devices[at].try_emplace(types_.type_of[size_t(d)], types_.devices[size_t(types_.type_of[size_t(d)])][0]);
    }
    for (const auto& [at, by_type] : devices) {
      Portion portion;
      for (const auto& [type, device] : by_type) portion.devices.push_back(device);
      auto known = std::find(it->second.begin(), it->second.end(), portion);
      if (known == it->second.end())
        it->second.push_back(std::move(portion));
      else
        ++known->count;
    }
    return it->second;
  }

  /// Part of the work that all portions together can have done by then, at least.
  double done_within(double time, const std::vector<PartWithin>& within, const std::vector<Portion>& portions) const {
    double sum = 0;
    for (const Portion& portion : portions) {
      double most = 1;
      for (int device : portion.devices) most = std::min(most, within[size_t(types_.type_of[size_t(device)])](time));
      sum += most * portion.count;
    }
    return sum;
  }

  /// Each device passes over its part of so many bytes: least where the slower ones have less. What several devices
  /// hold alike waits for the slowest of them.
  double in_memory(double bytes, const Form& form) {
    std::vector<int> cut;
    for (int axis = 0; axis < axes_; ++axis)
      if (form.on[size_t(axis)].sharded()) cut.push_back(axis);
    auto [it, fresh] = bandwidth_.try_emplace(cut, 0);
    if (fresh)
      for (const Portion& portion : portions_along(cut)) {
        double slowest = HUGE_VAL;
        for (int d : portion.devices)
          slowest = std::min(slowest, problem_.cluster.devices[size_t(d)].memory_bytes_per_second());
        it->second += portion.count * slowest;
      }
    return bytes / it->second;
  }

  /// What collectives along an axis need in groups that are alike.
  struct Group {
    double latency;                 ///< of a hop
    double seconds;                 ///< for a byte over the slowest link
    double spread_seconds;          ///< for a byte of an all-to-all over all its devices' own links
    std::map<Opcode, Line> levels;  ///< hierarchically, at least
    int count = 1;
    bool like(const Group& g) const {
      return latency == g.latency && seconds == g.seconds && spread_seconds == g.spread_seconds && levels == g.levels;
    }
  };
  struct Groups {
    std::vector<Group> kinds;
    int count = 0;
    bool all_leave_hosts = true;
    bool levels = false;  ///< collectives can be hierarchical
  };

  Groups groups_along(int axis) const {
    Groups out;
    out.levels = problem_.cost.communication().has_levels(axis);
    for (int d = 0; d < problem_.cost.device_count(); ++d) {
      if (problem_.cost.coordinate(d, axis) != 0) continue;
      const Link& link = problem_.cost.link(axis, d);
      double bandwidth = 0;
      bool leaves = false;
      for (int member : problem_.mesh.group(d, axis)) {
        const int host = problem_.cluster.devices[size_t(member)].host;
        bandwidth += problem_.cluster.hosts[size_t(host)].inside.bandwidth_bytes_per_second;
        leaves = leaves || host != problem_.cluster.devices[size_t(d)].host;
      }
      Group group{link.latency_seconds, 1 / link.bandwidth_bytes_per_second, 1 / bandwidth, {}};
      for (Opcode opcode : {Opcode::all_reduce, Opcode::all_gather, Opcode::reduce_scatter, Opcode::all_to_all})
        if (out.levels)
          group.levels[opcode] = problem_.cost.communication().least_hierarchical(opcode, axis, d, typical_bytes);
      auto known = std::find_if(out.kinds.begin(), out.kinds.end(), [&](const Group& g) { return g.like(group); });
      if (known == out.kinds.end())
        out.kinds.push_back(group);
      else
        ++known->count;
      ++out.count;
      out.all_leave_hosts = out.all_leave_hosts && leaves;
    }
    return out;
  }

  /// Along the axis of the collective even shares are the best. Groups that hold different parts of the tensor may hold
  /// unequal ones, so that all end together.
  double collective(const Conversion& made, double bytes, const Form& form) const {
    const Groups& groups = groups_[size_t(made.axis)];
    const double n = problem_.mesh.axes[size_t(made.axis)].size, hops = n - 1;
    bool divided = false;
    for (int axis = 0; axis < axes_; ++axis)
      divided = divided || (axis != made.axis && form.on[size_t(axis)].sharded());
    const bool twice = made.opcode == Opcode::all_reduce, to_all = made.opcode == Opcode::all_to_all;
    const double latencies = twice || made.realisation == Realisation::grouped ? 2 * hops : hops;
    const double moved = (twice ? 2 : 1) * hops / n;
    double seconds = together(groups, bytes, divided, [&](const Group& g) {
      return Line{latencies * g.latency, moved * (to_all ? g.spread_seconds : g.seconds)};
    });
    if (to_all && groups.all_leave_hosts) {  // over all hosts' links together
      const double leaving = (divided ? 1 : groups.count) * bytes * hops / n;
      double least_fixed = HUGE_VAL;
      for (const Group& g : groups.kinds) least_fixed = std::min(least_fixed, latencies * g.latency);
      seconds = std::max(seconds, least_fixed + leaving / outside_bandwidth_);
    }
    if (!groups.levels) return seconds;
    return std::min(seconds,
                    together(groups, bytes, divided, [&](const Group& g) { return g.levels.at(made.opcode); }));
  }

  /// The same at all shares along its axis. Bytes are rounded to whole ones.
  double halo_exchange(int axis, double bytes, const Form& form, double overlap) const {
    bool divided = false;
    for (int other = 0; other < axes_; ++other)
      divided = divided || (other != axis && form.on[size_t(other)].sharded());
    const double seconds = together(groups_[size_t(axis)], bytes, divided, [&](const Group& g) {
      return Line{std::max(0.0, 2 * g.latency - g.seconds), overlap * g.seconds};
    });
    return problem_.mesh.axes[size_t(axis)].size < 2 ? 0 : seconds;
  }

  /// When groups that move so many bytes have all ended: each all of them, or, divided, parts that end together.
  template <class LineOf>
  static double together(const Groups& groups, double bytes, bool divided, const LineOf& line) {
    double low = 0, high = 0;
    for (const Group& g : groups.kinds) {
      low = std::max(low, line(g).fixed);
      high = std::max(high, line(g).fixed + line(g).per_byte * bytes);
    }
    for (int i = 0; divided && i < most_halvings && high - low > rounding * high; ++i) {
      const double middle = (low + high) / 2;
      double done = 0;
      for (const Group& g : groups.kinds) {
        const double slope = line(g).per_byte * bytes;
        done += g.count * (slope > 0 ? std::max(0.0, middle - line(g).fixed) / slope : 1);
      }
      (done >= 1 ? high : low) = middle;
    }
    return divided ? low : high;
  }

  const Problem& problem_;
  DeviceTypes types_;
  int axes_;
  int varying_ = 0;                                            ///< axes along which devices of different types meet
  int varying_axis_ = -1;                                      ///< the last of them
  double outside_bandwidth_ = 0;                               ///< of all hosts' links to others together
  std::vector<Groups> groups_;                                 ///< by axis
  std::map<std::vector<int>, std::vector<Portion>> portions_;  ///< by axes
  std::map<std::pair<Work, int>, Picoseconds> operations_;     ///< by work and the axes that divide it
  std::map<ConversionKey, Conversion> conversions_;            ///< of what is moved once
  std::map<std::vector<int>, double> bandwidth_;               ///< by axes that cut a tensor: of all portions' memories
};

PlanNetwork network_of(const Problem& problem) {
  if (problem.mesh.axes.size() < 2) return network_over_shares(problem);
  BestShares best(problem);
  return build_network(
      problem, [&](NodeId node, const Option& option) { return best.operation(node, option); },
      [&](NodeId node, const Form& from, const Form& to) { return best.conversion(node, from, to); });
}

/// Among devices that are all alike the relaxation may be the whole search.
double tolerance_of(const Problem& problem) {
  if (problem.mesh.axes.size() < 2 && device_types(problem.cluster).devices.size() < 2) return 0;
  return bound_precision;
}

}  // namespace

MeshBound::MeshBound(const Problem& problem, const StopToken& stop)
    : problem_(problem),
      network_(std::make_shared<const PlanNetwork>(network_of(problem))),
      minimisation_(network_->network, limits_of(problem, stop, tolerance_of(problem))) {}

Picoseconds MeshBound::after(int sweeps) {
  const int more = sweeps - std::exchange(sweeps_, std::max(sweeps_, sweeps));
  return minimisation_.bound_after(std::max(0, more));
}

Relaxation MeshBound::relaxation(Picoseconds enough) {
  const SearchResult found = minimisation_.finish(cutoff_for_tolerance(enough, bound_precision));
  Relaxation out = relaxation_of(problem_, network_, found, minimisation_.likely_values(likely_part));
  const bool alike = device_types(problem_.cluster).devices.size() < 2;
  if (problem_.mesh.axes.size() < 2 && !alike) out.learnt = minimisation_.learnt(named_values(*network_));
  return out;
}

}  // namespace hetsynth::synth
