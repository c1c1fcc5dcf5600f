#include "synth/model/uplinks.h"

#include <algorithm>
#include <map>

namespace hetsynth::synth {
namespace {

/// The hosts that a ring passes one after the other, those of neighbours on one host once.
std::vector<int> hosts_in_order(const Cluster& cluster, const std::vector<int>& group) {
  std::vector<int> out;
  for (int device : group) {
    const int host = cluster.devices[size_t(device)].host;
    if (out.empty() || out.back() != host) out.push_back(host);
  }
  return out;
}

}  // namespace

Uplinks::Uplinks(const Cluster& cluster, const std::vector<std::vector<int>>& groups)
    : rings_(groups.size(), unlimited_link) {
  if (cluster.racks.empty()) return;
  const auto rack_of_host = [&](int host) { return cluster.hosts[size_t(host)].rack; };
  const auto rack_of = [&](int device) { return rack_of_host(cluster.devices[size_t(device)].host); };
  std::vector<std::vector<int>> hosts;
  std::map<int, double> leaving, entering;  // by rack: hops of rings that share its uplink; -1: of no rack
  const auto each_hop = [&](size_t group, const auto& visit) {
    const std::vector<int>& order = hosts[group];
    for (size_t i = 0; i < order.size(); ++i) {
      const int from = order[i], to = order[(i + 1) % order.size()];
      if (rack_of_host(from) != rack_of_host(to)) visit(from, to);
    }
  };
  for (size_t g = 0; g < groups.size(); ++g) {
    hosts.push_back(hosts_in_order(cluster, groups[g]));
    each_hop(g, [&](int from, int to) { ++leaving[rack_of_host(from)], ++entering[rack_of_host(to)]; });
  }
  for (size_t g = 0; g < groups.size(); ++g)
    each_hop(g, [&](int from, int to) {
      const Link passed = cluster.uplink(from, to, leaving[rack_of_host(from)], entering[rack_of_host(to)]);
      rings_[g] = slower(rings_[g], passed);
    });
  for (size_t rack = 0; rack < cluster.racks.size(); ++rack) {
    Exchange exchange{cluster.racks[rack].uplink.both_ways(), {}};
    for (const std::vector<int>& group : groups) {
      const auto inside = std::ranges::count(group, int(rack), rack_of);
      const double outside = double(group.size()) - double(inside);
      if (outside == 0) continue;
      for (int device : group)
        if (rack_of(device) == int(rack)) exchange.parts.emplace_back(device, outside / double(group.size() - 1));
    }
    if (!exchange.parts.empty()) exchanges_.push_back(std::move(exchange));
  }
}

double Uplinks::exchange_seconds(const std::vector<double>& moved) const {
  double slowest = 0;
  for (const Exchange& exchange : exchanges_) {
    double bytes = 0;
    for (const auto& [device, part] : exchange.parts) bytes += part * moved[size_t(device)];
    slowest = std::max(slowest, bytes / exchange.bytes_per_second);
  }
  return slowest;
}

}  // namespace hetsynth::synth
