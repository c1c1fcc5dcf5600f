#include "synth/mesh/device_subsets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "synth/mesh/device_types.h"

namespace hetsynth::synth {

Cluster restricted(const Cluster& cluster, const std::vector<int>& devices) {
  Cluster out = cluster;
  out.devices.clear();
  out.hosts.clear();
  std::map<int, int> host_number;
  for (int d : devices) {
    Device device = cluster.devices.at(d);
    auto [it, fresh] = host_number.try_emplace(device.host, int(out.hosts.size()));
    if (fresh) out.hosts.push_back(cluster.hosts.at(device.host));
    device.host = it->second;
    out.devices.push_back(std::move(device));
  }
  return out;
}

Cluster without_memory_limits(Cluster cluster) {
  for (Device& device : cluster.devices) device.memory_bytes = 0;
  return cluster;
}

std::string device_list(const Cluster& cluster) {
  constexpr size_t most_names = 6;
  const auto& devices = cluster.devices;
  if (devices.size() > most_names)
    return fmt::format("{} .. {} ({} devices)", devices.front().name, devices.back().name, devices.size());
  std::string out;
  for (const Device& device : devices) out += (out.empty() ? "" : ", ") + device.name;
  return out;
}

namespace {

/// Numbers of the hosts, those whose slowest device is fastest first.
std::vector<size_t> hosts_by_speed(const Cluster& cluster) {
  std::vector<double> slowest(cluster.hosts.size(), HUGE_VAL);
  for (const Device& device : cluster.devices)
    slowest[size_t(device.host)] = std::min(slowest[size_t(device.host)], device.matmul_flops_per_second());
  std::vector<size_t> hosts(cluster.hosts.size());
  std::iota(hosts.begin(), hosts.end(), size_t(0));
  std::stable_sort(hosts.begin(), hosts.end(), [&](size_t a, size_t b) { return slowest[a] > slowest[b]; });
  return hosts;
}

}  // namespace

std::vector<std::vector<int>> device_subsets(const Cluster& cluster) {
  int count = int(cluster.devices.size());
  std::vector<std::vector<int>> subsets(1, std::vector<int>(count));
  std::iota(subsets[0].begin(), subsets[0].end(), 0);
  auto add = [&](std::vector<int> subset) {
    if (subset.size() > 1 && std::find(subsets.begin(), subsets.end(), subset) == subsets.end())
      subsets.push_back(std::move(subset));
  };
  std::vector<std::vector<int>> hosts(cluster.hosts.size());
  for (int d = 0; d < count; ++d) hosts[cluster.devices[d].host].push_back(d);
  int kinds_of_hosts = 0;
  for (size_t h = 0; h < hosts.size(); ++h) {
    auto equal = [&](size_t other) {
      return std::ranges::equal(hosts[h], hosts[other], [&](int x, int y) { return alike(cluster, x, y); });
    };
    bool repeated = false;
    for (size_t other = 0; other < h; ++other) repeated = repeated || equal(other);
    if (repeated) continue;
    add(hosts[h]);
    ++kinds_of_hosts;
  }
  std::vector<double> speeds;
  for (const Device& device : cluster.devices) speeds.push_back(device.matmul_flops_per_second());
  std::vector<double> levels = speeds;
  std::sort(levels.rbegin(), levels.rend());
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  for (double level : levels) {
    std::vector<int> fast;
    for (int d = 0; d < count; ++d)
      if (speeds[d] >= level) fast.push_back(d);
    add(std::move(fast));
  }
  // For every speed that a host's link to others has, the hosts with links at least so fast may go on without the rest.
  std::vector<double> links;
  for (size_t h = 0; h < hosts.size(); ++h) links.push_back(cluster.outside(int(h)).bandwidth_bytes_per_second);
  for (const double least : std::set<double>(links.begin(), links.end())) {
    std::vector<int> near;
    for (int d = 0; d < count; ++d)
      if (links[size_t(cluster.devices[size_t(d)].host)] >= least) near.push_back(d);
    add(std::move(near));
  }
  // The hosts of one rack need no uplink.
  for (size_t rack = 0; rack < cluster.racks.size(); ++rack) {
    std::vector<int> near;
    for (int d = 0; d < count; ++d)
      if (cluster.hosts[size_t(cluster.devices[size_t(d)].host)].rack == int(rack)) near.push_back(d);
    const bool repeated = std::ranges::any_of(subsets, [&](const std::vector<int>& subset) {
      return std::ranges::equal(subset, near, [&](int x, int y) { return alike(cluster, x, y); });
    });
    if (!repeated) add(std::move(near));
  }
  const std::vector<size_t> order = hosts_by_speed(cluster);
  const auto add_fastest_hosts = [&](size_t many) {
    std::vector<int> subset;
    for (size_t i = 0; i < many; ++i) subset.insert(subset.end(), hosts[order[i]].begin(), hosts[order[i]].end());
    std::sort(subset.begin(), subset.end());
    add(std::move(subset));
  };
  for (size_t many = 2; many < order.size(); many *= 2) add_fastest_hosts(many);
  if (order.size() > 2 && kinds_of_hosts > 1) add_fastest_hosts(order.size() - 1);
  return subsets;
}

}  // namespace hetsynth::synth
