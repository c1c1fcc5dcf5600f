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
                     const Cluster& cluster)
    : program_(program), classes_(classes), cluster_(cluster) {
  link_ = cluster.devices.size() > 1 ? cluster.slowest_link() : unlimited_link;
  for (const Device& device : cluster.devices) native_ = native_ && device.kind == DeviceKind::cpu;
  find_fused(kinds);
  find_works(kinds);
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
    for (NodeId input : node.inputs) key.push_back(fused_[input]);
    key.insert(key.end(), classes_.factors[node.id].begin(), classes_.factors[node.id].end());
    auto [it, fresh] = number.try_emplace(std::move(key), -1);
    if (fresh) {
      WholeWork work;
      if (!node.leaf()) {
        double iterations = effective_iterations(node);
        work.flops = iterations * (flops(node.body) + (node.space.reduction() ? 1 : 0));
        work.factor_classes = classes_.factors[node.id];
        auto add = [&](const Access& access, const TensorType& type, double elements) {
          WholeWork::Operand operand{elements * double(size_bytes(type.dtype)), 0};
          for (size_t f = 0; f < std::min<size_t>(64, node.space.factors.size()); ++f)
            if (mentions_factor(access, int(f))) operand.factors |= uint64_t(1) << f;
          work.operands.push_back(operand);
        };
        for (size_t j = 0; j < node.inputs.size(); ++j) {
          const Node& input = program_[node.inputs[j]];
          if (!fused_[input.id])
            add(node.space.inputs[j], input.type, std::min(iterations, double(element_count(input.type.shape))));
        }
        if (!fused_[node.id]) add(node.space.output, node.type, double(element_count(node.type.shape)));
      }
      it->second = works_.add_kind(std::move(work));
    }
    works_.add(it->second);
  }
}

Work CostModel::work(NodeId id, const Option& option) const {
  const WholeWork& whole = works_[id];
  Work work;
  int f = option.factor;
  if (f >= 0) work.class_id = whole.factor_classes[f];
  (f >= 0 ? work.flops_cut : work.flops_fixed) += whole.flops;
  for (const WholeWork::Operand& operand : whole.operands)
    (f >= 0 && operand.factors >> f & 1 ? work.bytes_cut : work.bytes_fixed) += operand.bytes;
  return work;
}

double CostModel::part_of(const Work& work, const Shares& shares, int d) const {
  if (work.class_id < 0) return 0;
  return double(shares[work.class_id][d]) / double(classes_.classes[work.class_id].granules);
}

double CostModel::device_flops(const Work& work, const Shares& shares, int d) const {
  return work.flops_fixed + work.flops_cut * part_of(work, shares, d);
}

double CostModel::device_seconds(const Work& work, const Shares& shares, int d) const {
  double part = part_of(work, shares, d);
  if (work.class_id >= 0 && part == 0) return 0;
  const Device& device = cluster_.devices[d];
  double compute = (work.flops_fixed + work.flops_cut * part) / device.matmul_flops_per_second();
  double memory = (work.bytes_fixed + work.bytes_cut * part) / device.memory_bytes_per_second();
  return std::max(compute, memory);
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

int64_t CostModel::local_bytes(NodeId node, const Form& form, const Shares& shares, int device) const {
  if (form.kind != Form::Kind::sharded) return bytes(node);
  int c = classes_.dims[node][form.dim];
  return bytes(node) / classes_.classes[c].granules * shares[c][device];
}

std::vector<double> CostModel::shard_bytes(NodeId node, int dim, const Shares& shares) const {
  std::vector<double> out;
  for (int d = 0; d < device_count(); ++d)
    out.push_back(double(local_bytes(node, {Form::Kind::sharded, dim}, shares, d)));
  return out;
}

double CostModel::gather_seconds(double total, const std::vector<double>& shards, Realisation* realisation) const {
  double hops = double(shards.size()) - 1, latency = link_.latency_seconds,
         bandwidth = link_.bandwidth_bytes_per_second;
  double exact = (total - *std::min_element(shards.begin(), shards.end())) / bandwidth;
  *realisation = Realisation::native;
  if (native_) return hops * latency + exact;
  double padded = hops * (latency + *std::max_element(shards.begin(), shards.end()) / bandwidth);
  double grouped = 2 * hops * latency + exact;
  *realisation = padded <= grouped ? Realisation::padded : Realisation::grouped;
  return std::min(padded, grouped);
}

double CostModel::all_to_all_seconds(const std::vector<double>& before, const std::vector<double>& after) const {
  double n = double(before.size());
  std::vector<double> per_host(cluster_.hosts.size(), 0);
  std::set<int> hosts;
  double device_seconds = 0, host_seconds = 0;
  for (int d = 0; d < device_count(); ++d) {
    double moved = std::max(before[d], after[d]) * (n - 1) / n;
    int host = cluster_.devices[d].host;
    per_host[host] += moved;
    hosts.insert(host);
    device_seconds = std::max(device_seconds, moved / cluster_.hosts[host].inside.bandwidth_bytes_per_second);
  }
  if (hosts.size() > 1)
    for (double moved : per_host)
      host_seconds = std::max(host_seconds, moved / cluster_.between.bandwidth_bytes_per_second);
  return (n - 1) * link_.latency_seconds + std::max(device_seconds, host_seconds);
}

Conversion CostModel::conversion(NodeId node, const Form& from, const Form& to, const Shares& shares) const {
  using Kind = Form::Kind;
  double total = double(bytes(node)), n = device_count();
  Conversion out;
  auto found = [&](Opcode opcode, double seconds) {
    out.possible = true;
    out.opcode = opcode;
    out.cost = to_picoseconds(seconds);
  };
  auto memory_seconds = [&](auto bytes_of) {
    double slowest = 0;
    for (int d = 0; d < device_count(); ++d)
      slowest = std::max(slowest, bytes_of(d) / cluster_.devices[d].memory_bytes_per_second());
    return slowest;
  };
  if (from == to || to.kind == Kind::partial_max) return out;
  if (from.kind == Kind::replicated && to.kind == Kind::sharded) {
    auto shards = shard_bytes(node, to.dim, shares);
    found(Opcode::slice, memory_seconds([&](int d) { return 2 * shards[d]; }));
  } else if (from.kind == Kind::replicated && to.kind == Kind::partial_sum) {
    found(Opcode::to_partial, memory_seconds([&](int) { return total; }));
  } else if (from.kind == Kind::sharded && to.kind == Kind::replicated) {
    double seconds = gather_seconds(total, shard_bytes(node, from.dim, shares), &out.realisation);
    found(Opcode::all_gather, seconds);
  } else if (from.kind == Kind::sharded && to.kind == Kind::sharded) {
    found(Opcode::all_to_all,
          all_to_all_seconds(shard_bytes(node, from.dim, shares), shard_bytes(node, to.dim, shares)));
  } else if (from.partial() && to.kind == Kind::replicated) {
    found(Opcode::all_reduce,
          2 * (n - 1) * link_.latency_seconds + 2 * (n - 1) / n * total / link_.bandwidth_bytes_per_second);
  } else if (from.partial() && to.kind == Kind::sharded) {
    double seconds = gather_seconds(total, shard_bytes(node, to.dim, shares), &out.realisation);
    found(Opcode::reduce_scatter, seconds);
  }
  return out;
}

}  // namespace hetsynth::synth
