#include "synth/communication_cost.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "dsl/base/error.h"

namespace hetsynth::synth {

CommunicationCost::CommunicationCost(const Cluster& cluster, const Mesh& mesh, bool native)
    : cluster_(cluster), mesh_(mesh), native_(native) {
  for (int axis = 0; axis < int(mesh.axes.size()); ++axis) find_links(axis);
}

void CommunicationCost::find_links(int axis) {
  const int devices = int(cluster_.devices.size());
  coordinates_.emplace_back();
  groups_.emplace_back();
  for (int d = 0; d < devices; ++d) {
    coordinates_.back().push_back(mesh_.coordinate(d, axis));
    if (coordinates_.back().back() == 0) groups_.back().push_back(mesh_.group(d, axis));
  }
  std::vector<int> crossing(cluster_.hosts.size(), 0);  // by host: groups that leave it
  std::vector<std::set<int>> hosts_of_group;
  for (const Group& group : groups_.back()) {
    std::set<int> hosts;
    for (int d : group) hosts.insert(cluster_.devices[d].host);
    if (hosts.size() > 1)
      for (int host : hosts) ++crossing[host];
    hosts_of_group.push_back(std::move(hosts));
  }
  links_.emplace_back(devices);
  crosses_.emplace_back(devices, 0);
  for (size_t g = 0; g < groups_.back().size(); ++g) {
    const Group& group = groups_.back()[g];
    Link slowest = unlimited_link;
    auto over = [&](const Link& link, double sharing) {
      slowest.bandwidth_bytes_per_second =
          std::min(slowest.bandwidth_bytes_per_second, link.bandwidth_bytes_per_second / sharing);
      slowest.latency_seconds = std::max(slowest.latency_seconds, link.latency_seconds);
    };
    for (int host : hosts_of_group[g]) {
      auto inside = std::count_if(group.begin(), group.end(), [&](int d) { return cluster_.devices[d].host == host; });
      if (inside > 1) over(cluster_.hosts[host].inside, 1);
      if (hosts_of_group[g].size() > 1) over(cluster_.between, crossing[host]);
    }
    for (int d : group) {
      links_.back()[d] = slowest;
      crosses_.back()[d] = hosts_of_group[g].size() > 1;
    }
  }
}

/// `whole`: bytes that a device holds of what its group moves.
Movement CommunicationCost::by_group(int axis, const std::vector<double>& whole,
                                     const std::function<double(const Group&, const Link&)>& seconds) const {
  Movement out;
  out.device_seconds.resize(whole.size());
  for (const Group& group : groups_[axis]) {
    double needed = seconds(group, links_[axis][group[0]]);
    for (int d : group) out.device_seconds[d] = needed;
    out.seconds = std::max(out.seconds, needed);
    out.bytes = std::max(out.bytes, whole[group[0]]);
  }
  return out;
}

Movement CommunicationCost::gathering(int axis, const std::vector<double>& whole, const std::vector<double>& shards,
                                      Realisation realisation) const {
  Movement out = by_group(axis, whole, [&](const Group& group, const Link& link) {
    double least = shards[group[0]], greatest = 0, hops = double(group.size()) - 1;
    for (int d : group) {
      least = std::min(least, shards[d]);
      greatest = std::max(greatest, shards[d]);
    }
    double exact = (whole[group[0]] - least) / link.bandwidth_bytes_per_second;
    switch (realisation) {
      case Realisation::padded:
        return hops * (link.latency_seconds + greatest / link.bandwidth_bytes_per_second);
      case Realisation::grouped:
        return 2 * hops * link.latency_seconds + exact;
      case Realisation::native:
        break;
    }
    return hops * link.latency_seconds + exact;
  });
  out.realisation = realisation;
  return out;
}

/// Every device's own link, and the link of its host that all devices of the host share.
Movement CommunicationCost::all_to_all(int axis, const std::vector<double>& before,
                                       const std::vector<double>& after) const {
  const double n = mesh_.axes[axis].size;
  std::vector<double> leaving(cluster_.hosts.size(), 0), moved(before.size()), whole(before.size(), 0);
  for (size_t d = 0; d < before.size(); ++d) {
    moved[d] = std::max(before[d], after[d]) * (n - 1) / n;
    if (crosses_[axis][d]) leaving[cluster_.devices[d].host] += moved[d];
  }
  for (const Group& group : groups_[axis])
    for (int d : group) whole[group[0]] += before[d];
  return by_group(axis, whole, [&](const Group& group, const Link& link) {
    double slowest = 0;
    for (int d : group) {
      int host = cluster_.devices[d].host;
      slowest = std::max(slowest, moved[d] / cluster_.hosts[host].inside.bandwidth_bytes_per_second);
      if (crosses_[axis][d]) slowest = std::max(slowest, leaving[host] / cluster_.between.bandwidth_bytes_per_second);
    }
    return (n - 1) * link.latency_seconds + slowest;
  });
}

/// Passes of every device over so many bytes of its own memory.
Movement CommunicationCost::in_memory(const std::vector<double>& bytes, double passes) const {
  Movement out;
  for (size_t d = 0; d < bytes.size(); ++d)
    out.device_seconds.push_back(passes * bytes[d] / cluster_.devices[d].memory_bytes_per_second());
  out.seconds = *std::max_element(out.device_seconds.begin(), out.device_seconds.end());
  return out;
}

Movement CommunicationCost::movement(Opcode opcode, int axis, const std::vector<double>& before,
                                     const std::vector<double>& after, std::optional<Realisation> realisation) const {
  switch (opcode) {
    case Opcode::slice:
      return in_memory(after, 2);
    case Opcode::to_partial:
      return in_memory(after, 1);
    case Opcode::all_gather:
    case Opcode::reduce_scatter: {
      const auto& whole = opcode == Opcode::all_gather ? after : before;
      const auto& shards = opcode == Opcode::all_gather ? before : after;
      if (!realisation && native_) realisation = Realisation::native;
      if (realisation) return gathering(axis, whole, shards, *realisation);
      Movement padded = gathering(axis, whole, shards, Realisation::padded);
      Movement grouped = gathering(axis, whole, shards, Realisation::grouped);
      return grouped.seconds < padded.seconds ? grouped : padded;
    }
    case Opcode::all_to_all:
      return all_to_all(axis, before, after);
    case Opcode::all_reduce:
    case Opcode::broadcast: {
      // A broadcast value may lie on one stage alone before.
      return by_group(axis, after, [&](const Group& group, const Link& link) {
        double hops = double(group.size()) - 1, n = double(group.size());
        double held = after[group[0]] / link.bandwidth_bytes_per_second;
        if (opcode == Opcode::broadcast) return hops * link.latency_seconds + held;
        return 2 * hops * link.latency_seconds + 2 * hops / n * held;
      });
    }
    case Opcode::send:
    case Opcode::compute:
      break;
  }
  throw InternalError("neither a collective nor a movement in memory");
}

Movement CommunicationCost::send(int axis, int root, int to, const std::vector<double>& before) const {
  auto host_of = [&](int device) { return cluster_.devices[size_t(device)].host; };
  std::vector<int> leaving(cluster_.hosts.size(), 0);  // by host: sends that share its link to the others
  for (const Group& group : groups_[size_t(axis)])
    if (host_of(group[size_t(root)]) != host_of(group[size_t(to)])) ++leaving[size_t(host_of(group[size_t(root)]))];
  Movement out;
  out.device_seconds.assign(before.size(), 0);
  for (const Group& group : groups_[size_t(axis)]) {
    const int from = group[size_t(root)], target = group[size_t(to)];
    const bool crosses = host_of(from) != host_of(target);
    const Link& link = crosses ? cluster_.between : cluster_.hosts[size_t(host_of(from))].inside;
    const double sharing = crosses ? leaving[size_t(host_of(from))] : 1;
    const double seconds = link.latency_seconds + before[size_t(from)] * sharing / link.bandwidth_bytes_per_second;
    out.device_seconds[size_t(from)] = out.device_seconds[size_t(target)] = seconds;
    out.seconds = std::max(out.seconds, seconds);
    out.bytes = std::max(out.bytes, before[size_t(from)]);
  }
  return out;
}

}  // namespace hetsynth::synth
