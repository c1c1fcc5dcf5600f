#include "synth/cost.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "dsl/base/error.h"

namespace hetsynth::synth {
namespace {

bool one_hot_factor(const Node& node, int* factor) {
  OneHot found{0, 0, 0.0};
  if (!match_one_hot(node.body, &found)) return false;
  *factor = found.factor;
  return true;
}

/// Body evaluations, a one-hot loop counting as a single one.
double effective_iterations(const Node& node) {
  double count = node.space.iterations();
  int factor = -1;
  if (one_hot_factor(node, &factor)) count /= double(std::max<int64_t>(1, node.space.factors[factor].size));
  return count;
}

/// Whether the access walks over all elements of an operand exactly once while the operator runs.
bool reads_once(const Node& node, size_t operand, int64_t elements) {
  for (const DimIndex& index : node.space.inputs[operand].dims)
    if (index.offset != 0 || index.terms.size() > 1 || (index.terms.size() == 1 && !index.terms[0].plain()))
      return false;
  return node.space.iterations() == double(elements) && !node.space.inputs[operand].zero_outside;
}

}  // namespace

Picoseconds to_picoseconds(double seconds) {
  double ps = seconds * 1e12;
  return ps >= double(forbidden) ? forbidden : Picoseconds(std::llround(ps));
}
double to_seconds(Picoseconds cost) { return double(cost) * 1e-12; }

CostModel::CostModel(const Program& program, const DimensionClasses& classes, const std::vector<int>& kinds,
                     const AttentionCost& attention, const Cluster& cluster, const Mesh& mesh)
    : program_(program), classes_(classes), attention_(attention), cluster_(cluster), mesh_(mesh) {
  HETSYNTH_CHECK(mesh.device_count() == device_count() && mesh.axes.size() <= size_t(max_axes),
                 "a mesh must fit the cluster");
  for (const Device& device : cluster.devices) native_ = native_ && device.kind == DeviceKind::cpu;
  find_links();
  find_fused(kinds);
  find_works(kinds);
}

void CostModel::find_links() {
  for (int axis = 0; axis < int(mesh_.axes.size()); ++axis) {
    coordinates_.emplace_back();
    groups_.emplace_back();
    for (int d = 0; d < device_count(); ++d) {
      coordinates_.back().push_back(mesh_.coordinate(d, axis));
      if (coordinates_.back().back() == 0) groups_.back().push_back(mesh_.group(d, axis));
    }
    std::vector<int> crossing(cluster_.hosts.size(), 0);  // by host: groups that leave it
    std::vector<std::set<int>> hosts_of_group;
    for (const auto& group : groups_.back()) {
      std::set<int> hosts;
      for (int d : group) hosts.insert(cluster_.devices[d].host);
      if (hosts.size() > 1)
        for (int host : hosts) ++crossing[host];
      hosts_of_group.push_back(std::move(hosts));
    }
    links_.emplace_back(device_count());
    crosses_.emplace_back(device_count(), 0);
    for (size_t g = 0; g < groups_.back().size(); ++g) {
      const auto& group = groups_.back()[g];
      Link slowest = unlimited_link;
      auto over = [&](const Link& link, double sharing) {
        slowest.bandwidth_bytes_per_second =
            std::min(slowest.bandwidth_bytes_per_second, link.bandwidth_bytes_per_second / sharing);
        slowest.latency_seconds = std::max(slowest.latency_seconds, link.latency_seconds);
      };
      for (int host : hosts_of_group[g]) {
        auto inside =
            std::count_if(group.begin(), group.end(), [&](int d) { return cluster_.devices[d].host == host; });
        if (inside > 1) over(cluster_.hosts[host].inside, 1);
        if (hosts_of_group[g].size() > 1) over(cluster_.between, crossing[host]);
      }
      for (int d : group) {
        links_.back()[d] = slowest;
        crosses_.back()[d] = hosts_of_group[g].size() > 1;
      }
    }
  }
}

void CostModel::find_fused(const std::vector<int>& kinds) {
  fused_.assign(program_.nodes.size(), 0);
  auto consumers = program_.consumers();
  std::vector<char> kept(program_.nodes.size(), 0);
  for (const Update& update : program_.updates) kept[update.value] = 1;
  for (const NamedOutput& output : program_.outputs) kept[output.node] = 1;
  std::map<std::pair<int, size_t>, bool> read_once;
  for (const Node& node : program_.nodes) {
    if (node.leaf() || node.space.reduction() || kept[node.id] || consumers[node.id].size() != 1) continue;
    const Node& consumer = program_[consumers[node.id][0]];
    bool once = consumer.phase == node.phase;
    for (size_t j = 0; j < consumer.inputs.size(); ++j) {
      if (consumer.inputs[j] != node.id) continue;
      auto [it, fresh] = read_once.try_emplace({kinds[consumer.id], j}, false);
      if (fresh) it->second = reads_once(consumer, j, element_count(node.type.shape));
      once = once && it->second;
    }
    fused_[node.id] = once;
  }
}

void CostModel::find_works(const std::vector<int>& kinds) {
  std::map<std::vector<int>, int> number;
  for (const Node& node : program_.nodes) {
    std::vector<int> key{kinds[node.id], fused_[node.id]};
    for (NodeId input : node.inputs) key.push_back(fused_[input] + (in_blocks(input) ? 2 : 0));
    key.push_back(native_ ? attention_.role(node.id) : 0);
    key.insert(key.end(), classes_.factors[node.id].begin(), classes_.factors[node.id].end());
    auto [it, fresh] = number.try_emplace(std::move(key), -1);
    if (fresh) {
      WholeWork work;
      if (!node.leaf()) {
        double iterations = effective_iterations(node);
        work.flops = iterations * (flops(node.body) + (node.space.reduction() ? 1 : 0));
        work.factor_classes = classes_.factors[node.id];
        if (native_) {
          work.flops = attention_.flops(node.id, work.flops);
          work.column_factor = attention_.column_factor(node.id);
        }
        auto add = [&](const Access& access, const TensorType& type, double elements, bool in_blocks) {
          WholeWork::Operand operand{elements * double(size_bytes(type.dtype)), 0, in_blocks};
          for (size_t f = 0; f < std::min<size_t>(64, node.space.factors.size()); ++f)
            if (mentions_factor(access, int(f))) operand.factors |= uint64_t(1) << f;
          work.operands.push_back(operand);
        };
        for (size_t j = 0; j < node.inputs.size(); ++j) {
          const Node& input = program_[node.inputs[j]];
          if (!fused_[input.id])
            add(node.space.inputs[j], input.type, std::min(iterations, double(element_count(input.type.shape))),
                in_blocks(input.id));
        }
        if (!fused_[node.id])
          add(node.space.output, node.type, double(element_count(node.type.shape)), in_blocks(node.id));
      }
      it->second = works_.add_kind(std::move(work));
    }
    works_.add(it->second);
  }
}

const std::vector<Attention>& CostModel::attention() const {
  static const std::vector<Attention> none;
  return native_ ? attention_.found() : none;
}

Work CostModel::work(NodeId id, const Option& option) const {
  const WholeWork& whole = works_[id];
  Work work;
  int all = 0;
  for (int a = 0; a < max_axes; ++a)
    if (option.factor[a] >= 0) {
      work.class_id[a] = whole.factor_classes[option.factor[a]];
      all |= 1 << a;
    }
  work.flops[all] = whole.flops;
  bool stored = false;
  for (int a = 0; a < max_axes; ++a)
    stored = stored || (option.factor[a] >= 0 && option.factor[a] == whole.column_factor);
  for (const WholeWork::Operand& operand : whole.operands) {
    if (operand.in_blocks && !stored) continue;
    int cuts = 0;
    for (int a = 0; a < max_axes; ++a)
      if (option.factor[a] >= 0 && operand.factors >> option.factor[a] & 1) cuts |= 1 << a;
    work.bytes[cuts] += operand.bytes;
  }
  return work;
}

double CostModel::part(int class_id, int axis, const Shares& shares, int device) const {
  if (class_id < 0) return 1;
  return double(shares[axis][class_id][coordinates_[axis][device]]) / double(classes_.classes[class_id].granules);
}

namespace {

double weighted(const std::array<double, cut_sets>& by_cut, const std::array<double, cut_sets>& parts) {
  double sum = 0;
  for (int cut = 0; cut < cut_sets; ++cut) sum += by_cut[cut] * parts[cut];
  return sum;
}

}  // namespace

double CostModel::device_flops(const Work& work, const Shares& shares, int d) const {
  double flops = 0;
  for (int cut = 0; cut < cut_sets; ++cut) {
    double share = 1;
    for (int a = 0; a < max_axes; ++a)
      if (cut >> a & 1) share *= part(work.class_id[a], a, shares, d);
    flops += work.flops[cut] * share;
  }
  return flops;
}

double CostModel::device_seconds(const Work& work, const Shares& shares, int d) const {
  std::array<double, cut_sets> parts;
  parts.fill(1);
  for (int a = 0; a < max_axes; ++a) {
    if (work.class_id[a] < 0) continue;
    double share = part(work.class_id[a], a, shares, d);
    if (share == 0) return 0;
    for (int cut = 0; cut < cut_sets; ++cut)
      if (cut >> a & 1) parts[cut] *= share;
  }
  const Device& device = cluster_.devices[d];
  return std::max(weighted(work.flops, parts) / device.matmul_flops_per_second(),
                  weighted(work.bytes, parts) / device.memory_bytes_per_second());
}

Picoseconds CostModel::operator_cost(NodeId node, const Option& option, const Shares& shares) const {
  Work w = work(node, option);
  double slowest = 0;
  for (int d = 0; d < device_count(); ++d) slowest = std::max(slowest, device_seconds(w, shares, d));
  return to_picoseconds(slowest);
}

int64_t CostModel::bytes(NodeId node) const {
  return element_count(program_[node].type.shape) * size_bytes(program_[node].type.dtype);
}

double CostModel::local_bytes(NodeId node, const Form& form, const Shares& shares, int device) const {
  double local = double(bytes(node));
  for (int a = 0; a < max_axes; ++a)
    if (form.on[a].sharded()) local *= part(classes_.dims[node][form.on[a].dim], a, shares, device);
  return local;
}

double CostModel::gather_seconds(const Link& link, double total, double least, double greatest, int n,
                                 bool* grouped) const {
  double hops = n - 1, exact = (total - least) / link.bandwidth_bytes_per_second;
  *grouped = false;
  if (native_) return hops * link.latency_seconds + exact;
  double padded = hops * (link.latency_seconds + greatest / link.bandwidth_bytes_per_second);
  double in_group = 2 * hops * link.latency_seconds + exact;
  *grouped = in_group < padded;
  return std::min(padded, in_group);
}

/// all_gather or reduce_scatter between a form that is cut along the axis and the one that is not.
Conversion CostModel::gathering(NodeId node, const Form& cut, int axis, Opcode opcode, const Shares& shares) const {
  double slowest = 0;
  bool grouped = false;
  for (const auto& group : groups_[axis]) {
    double total = 0, least = HUGE_VAL, greatest = 0;
    for (int d : group) {
      double shard = local_bytes(node, cut, shares, d);
      total += shard;
      least = std::min(least, shard);
      greatest = std::max(greatest, shard);
    }
    bool in_group;
    double seconds = gather_seconds(links_[axis][group[0]], total, least, greatest, int(group.size()), &in_group);
    if (seconds > slowest) slowest = seconds, grouped = in_group;
  }
  Realisation realisation = native_ ? Realisation::native : grouped ? Realisation::grouped : Realisation::padded;
  return {true, opcode, axis, realisation, to_picoseconds(slowest)};
}

double CostModel::all_to_all_seconds(NodeId node, const Form& from, const Form& to, int axis,
                                     const Shares& shares) const {
  double n = mesh_.axes[axis].size, slowest = 0, latency = 0;
  std::vector<double> per_host(cluster_.hosts.size(), 0);
  for (int d = 0; d < device_count(); ++d) {
    double moved = std::max(local_bytes(node, from, shares, d), local_bytes(node, to, shares, d)) * (n - 1) / n;
    int host = cluster_.devices[d].host;
    latency = std::max(latency, links_[axis][d].latency_seconds);
    slowest = std::max(slowest, moved / cluster_.hosts[host].inside.bandwidth_bytes_per_second);
    if (crosses_[axis][d]) per_host[host] += moved;
  }
  for (double moved : per_host)
    if (moved > 0) slowest = std::max(slowest, moved / cluster_.between.bandwidth_bytes_per_second);
  return (n - 1) * latency + slowest;
}

double CostModel::all_reduce_seconds(NodeId node, const Form& from, int axis, const Shares& shares) const {
  double n = mesh_.axes[axis].size, slowest = 0;
  for (int d = 0; d < device_count(); ++d) {
    const Link& link = links_[axis][d];
    double held = local_bytes(node, from, shares, d);
    slowest = std::max(slowest,
                       2 * (n - 1) * link.latency_seconds + 2 * (n - 1) / n * held / link.bandwidth_bytes_per_second);
  }
  return slowest;
}

/// `passes` over the memory of what a device holds in that form.
double CostModel::slowest_memory_seconds(NodeId node, const Form& form, double passes, const Shares& shares) const {
  double slowest = 0;
  for (int d = 0; d < device_count(); ++d)
    slowest =
        std::max(slowest, passes * local_bytes(node, form, shares, d) / cluster_.devices[d].memory_bytes_per_second());
  return slowest;
}

Conversion CostModel::conversion(NodeId node, const Form& from, const Form& to, const Shares& shares) const {
  using Kind = AxisForm::Kind;
  int axis = -1;
  for (int a = 0; a < max_axes; ++a) {
    if (from.on[a] == to.on[a]) continue;
    if (axis >= 0) return {};
    axis = a;
  }
  if (axis < 0 || to.on[axis].kind == Kind::partial_max) return {};
  const AxisForm &before = from.on[axis], &after = to.on[axis];
  auto made = [&](Opcode opcode, double seconds) {
    return Conversion{true, opcode, axis, Realisation::native, to_picoseconds(seconds)};
  };
  if (before.kind == Kind::replicated)
    return after.sharded() ? made(Opcode::slice, slowest_memory_seconds(node, to, 2, shares))
                           : made(Opcode::to_partial, slowest_memory_seconds(node, to, 1, shares));
  if (before.sharded() && after.kind == Kind::replicated)
    return gathering(node, from, axis, Opcode::all_gather, shares);
  if (before.sharded() && after.sharded())
    return made(Opcode::all_to_all, all_to_all_seconds(node, from, to, axis, shares));
  if (before.partial() && after.kind == Kind::replicated)
    return made(Opcode::all_reduce, all_reduce_seconds(node, from, axis, shares));
  if (before.partial() && after.sharded()) return gathering(node, to, axis, Opcode::reduce_scatter, shares);
  return {};
}

}  // namespace hetsynth::synth
