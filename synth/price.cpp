#include "synth/price.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "dsl/base/error.h"

namespace hetsynth {
namespace {

double extent(const Range& range) { return double(range.hi - range.lo); }

/// Whether operand `j` of the node is walked over element by element, each exactly once.
bool walks_over(const Node& node, size_t j, int64_t elements) {
  const Access& access = node.space.inputs[j];
  auto plain = [](const DimIndex& index) {
    return index.offset == 0 && (index.terms.empty() || (index.terms.size() == 1 && index.terms[0].plain()));
  };
  return !access.zero_outside && std::all_of(access.dims.begin(), access.dims.end(), plain) &&
         node.space.iterations() == double(elements);
}

/// Nodes that live only inside the loop of their single consumer and never reach memory.
std::vector<char> fused_nodes(const Program& program) {
  std::vector<char> fused(program.nodes.size(), 0);
  auto consumers = program.consumers();
  for (const Node& node : program.nodes) {
    if (node.leaf() || node.space.reduction() || consumers[node.id].size() != 1) continue;
    const Node& consumer = program[consumers[node.id][0]];
    bool inside = consumer.phase == node.phase;
    for (size_t j = 0; j < consumer.inputs.size(); ++j)
      if (consumer.inputs[j] == node.id) inside = inside && walks_over(consumer, j, element_count(node.type.shape));
    fused[node.id] = inside;
  }
  for (const Update& update : program.updates) fused[update.value] = 0;
  for (const NamedOutput& output : program.outputs) fused[output.node] = 0;
  return fused;
}

class Pricer {
 public:
  Pricer(const Program& reference, const SpmdProgram& program, const Cluster& cluster)
      : reference_(reference), program_(program), cluster_(cluster), fused_(fused_nodes(reference)) {
    HETSYNTH_CHECK(int(cluster.devices.size()) == ranks(), "one device per rank");
  }

  InstructionPrice price(const Instruction& instruction) const {
    InstructionPrice out;
    out.device_seconds.assign(ranks(), 0);
    switch (instruction.opcode) {
      case Opcode::compute:
        for (int rank = 0; rank < ranks(); ++rank) out.flops += compute(instruction, rank, &out.device_seconds[rank]);
        break;
      case Opcode::slice:
        return local(instruction, 2);
      case Opcode::to_partial:
        return local(instruction, 1);
      default:
        out.bytes = communicate(instruction, &out.device_seconds);
    }
    out.seconds = *std::max_element(out.device_seconds.begin(), out.device_seconds.end());
    return out;
  }

 private:
  int ranks() const { return program_.mesh.device_count(); }

  double local_bytes(ValueId id, int rank) const {
    const Value& value = program_.values[id];
    const TensorType& type = reference_[value.node].type;
    return double(element_count(local_shape(program_, value.placements, type.shape, rank))) *
           double(size_bytes(type.dtype));
  }

  /// Floating-point operations and seconds of a rank's part of an operator.
  double compute(const Instruction& instruction, int rank, double* seconds) const {
    const Node& node = reference_[instruction.node];
    std::vector<double> part(node.space.factors.size(), 1);
    auto ranges = factor_ranges(program_, node.space, instruction.splits, rank);
    for (const Split& split : instruction.splits)
      if (split.factor >= 0)
        part[split.factor] = extent(ranges[split.factor]) / double(node.space.factors[split.factor].size);
    double whole = node.space.iterations();
    if (OneHot found{0, 0, 0.0}; match_one_hot(node.body, &found))
      whole /= double(std::max<int64_t>(1, node.space.factors[found.factor].size));
    double flops = whole * (hetsynth::flops(node.body) + (node.space.reduction() ? 1 : 0));
    for (double p : part) flops *= p;
    auto moved = [&](const Access& access, const TensorType& type, double elements) {
      double bytes = elements * double(size_bytes(type.dtype));
      for (size_t f = 0; f < part.size(); ++f)
        if (mentions_factor(access, int(f))) bytes *= part[f];
      return bytes;
    };
    double bytes = 0;
    for (size_t j = 0; j < node.inputs.size(); ++j) {
      const TensorType& type = reference_[node.inputs[j]].type;
      if (!fused_[node.inputs[j]])
        bytes += moved(node.space.inputs[j], type, std::min(whole, double(element_count(type.shape))));
    }
    if (!fused_[node.id]) bytes += moved(node.space.output, node.type, double(element_count(node.type.shape)));
    const Device& device = cluster_.devices[rank];
    bool nothing_to_do = std::find(part.begin(), part.end(), 0.0) != part.end();
    *seconds = nothing_to_do
                   ? 0
                   : std::max(flops / device.matmul_flops_per_second(), bytes / device.memory_bytes_per_second());
    return flops;
  }

  /// A pass of every device over its own memory; all wait for the slowest.
  InstructionPrice local(const Instruction& instruction, double passes) const {
    InstructionPrice out;
    for (int rank = 0; rank < ranks(); ++rank)
      out.seconds = std::max(out.seconds, passes * local_bytes(instruction.result, rank) /
                                              cluster_.devices[rank].memory_bytes_per_second());
    out.device_seconds.assign(ranks(), out.seconds);
    return out;
  }

  /// The link that limits a ring over these ranks.
  Link ring_link(const std::vector<int>& group) const {
    std::vector<int> on_host(cluster_.hosts.size(), 0);
    for (int rank : group) ++on_host[cluster_.devices[rank].host];
    Link slowest = unlimited_link;
    auto pass = [&](const Link& link) {
      slowest.bandwidth_bytes_per_second =
          std::min(slowest.bandwidth_bytes_per_second, link.bandwidth_bytes_per_second);
      slowest.latency_seconds = std::max(slowest.latency_seconds, link.latency_seconds);
    };
    for (size_t host = 0; host < on_host.size(); ++host) {
      if (on_host[host] > 1) pass(cluster_.hosts[host].inside);
      if (on_host[host] > 0 && on_host[host] < int(group.size())) pass(cluster_.between);
    }
    return slowest;
  }

  double communicate(const Instruction& instruction, std::vector<double>* device_seconds) const {
    double bytes = 0;
    for (int rank = 0; rank < ranks(); ++rank) {
      std::vector<int> group = program_.mesh.group(rank, instruction.axis);
      if (group.front() != rank) continue;
      double seconds = group_seconds(instruction, group, &bytes);
      for (int member : group) (*device_seconds)[member] = seconds;
    }
    return bytes;
  }

  double group_seconds(const Instruction& instruction, const std::vector<int>& group, double* bytes) const {
    ValueId from = instruction.operands[0], to = instruction.result;
    double n = double(group.size());
    Link link = ring_link(group);
    auto over = [&](double volume) { return volume / link.bandwidth_bytes_per_second; };
    auto shards = [&](ValueId value) {
      std::vector<double> out;
      for (int rank : group) out.push_back(local_bytes(value, rank));
      return out;
    };
    bool gathers = instruction.opcode == Opcode::all_gather;
    double whole = local_bytes(gathers ? to : from, group.front());
    double latencies = (n - 1) * link.latency_seconds, seconds = 0;
    switch (instruction.opcode) {
      case Opcode::all_gather:
      case Opcode::reduce_scatter: {
        auto sizes = shards(gathers ? from : to);
        auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
        switch (instruction.realisation) {
          case Realisation::native:
            seconds = latencies + over(whole - *least);
            break;
          case Realisation::grouped:
            seconds = 2 * latencies + over(whole - *least);
            break;
          case Realisation::padded:
            seconds = latencies + (n - 1) * over(*most);
        }
        break;
      }
      case Opcode::all_reduce:
        seconds = 2 * latencies + 2 * (n - 1) / n * over(whole);
        break;
      case Opcode::broadcast:
        seconds = latencies + over(whole);
        break;
      default: {  // all_to_all: each device's own link, and the link of its host that all of the host's devices share
        auto before = shards(from), after = shards(to);
        whole = std::accumulate(before.begin(), before.end(), 0.0);
        std::vector<double> leaving(cluster_.hosts.size(), 0);
        std::set<int> hosts;
        for (size_t i = 0; i < group.size(); ++i) {
          int host = cluster_.devices[group[i]].host;
          double moved = std::max(before[i], after[i]) * (n - 1) / n;
          leaving[host] += moved;
          hosts.insert(host);
          seconds = std::max(seconds, moved / cluster_.hosts[host].inside.bandwidth_bytes_per_second);
        }
        for (double moved : leaving)
          if (hosts.size() > 1) seconds = std::max(seconds, moved / cluster_.between.bandwidth_bytes_per_second);
        seconds += latencies;
      }
    }
    *bytes = std::max(*bytes, whole);
    return seconds;
  }

  const Program& reference_;
  const SpmdProgram& program_;
  const Cluster& cluster_;
  std::vector<char> fused_;
};

}  // namespace

std::vector<InstructionPrice> price_instructions(const Program& reference, const SpmdProgram& program,
                                                 const Cluster& cluster) {
  Pricer pricer(reference, program, cluster);
  std::vector<InstructionPrice> prices;
  for (const Instruction& instruction : program.instructions) prices.push_back(pricer.price(instruction));
  return prices;
}

double step_seconds(const std::vector<InstructionPrice>& prices) {
  double total = 0;
  for (const InstructionPrice& price : prices) total += price.seconds;
  return total;
}

}  // namespace hetsynth
