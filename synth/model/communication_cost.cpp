#include "synth/model/communication_cost.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "dsl/base/error.h"

namespace hetsynth::synth {

CommunicationCost::CommunicationCost(const Cluster& cluster, const Mesh& mesh, bool native)
    : cluster_(cluster), mesh_(mesh), native_(native) {
  for (int axis = 0; axis < int(mesh.axes.size()); ++axis) {
    find_links(axis);
    find_levels(axis);
  }
}

void CommunicationCost::find_links(int axis) {
  const int devices = int(cluster_.devices.size());
  coordinates_.emplace_back();
  groups_.emplace_back();
  for (int d = 0; d < devices; ++d) {
    coordinates_.back().push_back(mesh_.coordinate(d, axis));
    if (coordinates_.back().back() == 0) groups_.back().push_back(mesh_.group(d, axis));
  }
  uplinks_.emplace_back(cluster_, groups_.back());
  std::vector<int> crossing(cluster_.hosts.size(), 0);  // by host: groups that leave it
  std::vector<std::set<int>> hosts_of_group;
  for (const Group& group : groups_.back()) {
    std::set<int> hosts;
    for (int d : group) hosts.insert(cluster_.devices[d].host);
    if (hosts.size() > 1)
      for (int host : hosts) ++crossing[host];
    hosts_of_group.push_back(std::move(hosts));
  }
  sharing_.emplace_back();
  links_.emplace_back(devices);
  crosses_.emplace_back(devices, 0);
  for (size_t g = 0; g < groups_.back().size(); ++g) {
    const Group& group = groups_.back()[g];
    Link slowest = uplinks_.back().ring(g);
    sharing_.back().push_back(1);
    for (int host : hosts_of_group[g]) {
      if (hosts_of_group[g].size() > 1) sharing_.back()[g] = std::max(sharing_.back()[g], double(crossing[host]));
      auto inside = std::count_if(group.begin(), group.end(), [&](int d) { return cluster_.devices[d].host == host; });
      if (inside > 1) slowest = slower(slowest, cluster_.hosts[host].inside);
      if (hosts_of_group[g].size() > 1) slowest = slower(slowest, cluster_.outside(host, crossing[host]));
    }
    for (int d : group) {
      links_.back()[d] = slowest;
      crosses_.back()[d] = hosts_of_group[g].size() > 1;
    }
  }
}

void CommunicationCost::find_levels(int axis) {
  bool several = false, shared = false;
  levels_.emplace_back();
  group_of_.emplace_back(cluster_.devices.size(), 0);
  for (size_t g = 0; g < groups_[size_t(axis)].size(); ++g) {
    const Group& group = groups_[size_t(axis)][g];
    GroupLevels levels;
    int before = -1;
    for (int d : group) {
      group_of_.back()[size_t(d)] = g;
      const int host = cluster_.devices[size_t(d)].host;
      if (host != before) levels.hosts.push_back({cluster_.hosts[size_t(host)].inside, {}, {}});
      levels.hosts.back().devices.push_back(d);
      before = host;
    }
    for (const GroupLevels::Host& host : levels.hosts) shared = shared || host.devices.size() > 1;
    several = several || levels.hosts.size() > 1;
    levels.between = uplinks_.back().ring(g);
    for (GroupLevels::Host& host : levels.hosts) {
      host.outside = cluster_.outside(cluster_.devices[size_t(host.devices[0])].host, sharing_.back()[g]);
      levels.between = slower(levels.between, host.outside);
    }
    levels_.back().push_back(std::move(levels));
  }
  // Plans number hosts in the order of the ranks.
  levelled_.push_back(several && shared && std::ranges::is_sorted(cluster_.devices, {}, &Device::host));
}

/// `whole`: bytes that a device holds of what its group moves.
template <class Seconds>
Movement CommunicationCost::by_group(int axis, const std::vector<double>& whole, Detail detail,
                                     const Seconds& seconds) const {
  Movement out;
  if (detail == Detail::by_device) out.device_seconds.resize(whole.size());
  for (const Group& group : groups_[axis]) {
    double needed = seconds(group, links_[axis][group[0]]);
    out.seconds = std::max(out.seconds, needed);
    if (detail == Detail::seconds) continue;
    for (int d : group) out.device_seconds[d] = needed;
    out.bytes = std::max(out.bytes, whole[group[0]]);
  }
  return out;
}

Movement CommunicationCost::gathering(int axis, const std::vector<double>& whole, const std::vector<double>& shards,
                                      Realisation realisation, Detail detail) const {
  Movement out = by_group(axis, whole, detail, [&](const Group& group, const Link& link) {
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
      case Realisation::hierarchical:  // another formula
        break;
    }
    return hops * link.latency_seconds + exact;
  });
  out.realisation = realisation;
  return out;
}

namespace {

/// So many bytes from all devices of a host to their leader, or from it.
double pass_within(const GroupLevels::Host& host, double bytes) {
  if (host.devices.size() == 1) return 0;
  return double(host.devices.size() - 1) * host.inside.latency_seconds + bytes / host.inside.bandwidth_bytes_per_second;
}

}  // namespace

Movement CommunicationCost::hierarchical(Opcode opcode, int axis, const std::vector<double>& whole,
                                         const std::vector<double>& shards, Detail detail) const {
  Movement out = by_group(axis, whole, detail, [&](const Group& group, const Link&) {
    const GroupLevels& at = levels(axis, group[0]);
    const double bytes = whole[size_t(group[0])], hosts = double(at.hosts.size());
    double pass = 0, pass_shares = 0, least = bytes, greatest = 0;
    for (const GroupLevels::Host& host : at.hosts) {
      pass = std::max(pass, pass_within(host, bytes));
      if (opcode == Opcode::all_reduce || opcode == Opcode::broadcast) continue;
      double held = 0;
      for (int d : host.devices) held += shards[size_t(d)];
      pass_shares = std::max(pass_shares, pass_within(host, held));
      least = std::min(least, held);
      greatest = std::max(greatest, held);
    }
    const Link& link = hosts > 1 ? at.between : unlimited_link;
    const double hops = hosts - 1;
    if (opcode == Opcode::broadcast)
      return (hosts > 1 ? 2 : 1) * pass + hops * link.latency_seconds + bytes / link.bandwidth_bytes_per_second;
    if (opcode == Opcode::all_reduce)
      return 2 * pass + 2 * hops * link.latency_seconds + 2 * hops / hosts * bytes / link.bandwidth_bytes_per_second;
    const bool alike = native_ || greatest - least <= 1e-9 * greatest;
    return pass_shares + (alike ? 1 : 2) * hops * link.latency_seconds +
           (bytes - least) / link.bandwidth_bytes_per_second + pass;
  });
  out.realisation = Realisation::hierarchical;
  return out;
}

Line CommunicationCost::least_hierarchical(Opcode opcode, int axis, int device, double bytes) const {
  const GroupLevels& at = levels(axis, device);
  if (opcode == Opcode::all_to_all) return least_exchange(at);
  const double hosts = double(at.hosts.size());
  // Of what goes to leaders or from them, the host that is slowest at so many bytes.
  Line once, shares{HUGE_VAL, 0};
  double bandwidth = 0, most_fixed = 0;
  bool alone = false;
  for (const GroupLevels::Host& host : at.hosts) {
    if (host.devices.size() == 1) {
      alone = true;
      continue;
    }
    const Line own{double(host.devices.size() - 1) * host.inside.latency_seconds,
                   1 / host.inside.bandwidth_bytes_per_second};
    if (own.fixed + own.per_byte * bytes > once.fixed + once.per_byte * bytes) once = own;
    shares.fixed = std::min(shares.fixed, own.fixed);
    most_fixed = std::max(most_fixed, own.fixed);
    bandwidth += host.inside.bandwidth_bytes_per_second;
  }
  const double seconds = hosts > 1 ? 1 / at.between.bandwidth_bytes_per_second : 0;
  const Line ring{(hosts - 1) * at.between.latency_seconds, (hosts - 1) / hosts * seconds};
  if (opcode == Opcode::all_reduce) return {2 * (once.fixed + ring.fixed), 2 * (once.per_byte + ring.per_byte)};
  // Hosts that gather hold the less the more a host of one device does.
  if (alone)
    shares = {most_fixed, 0};
  else
    shares.per_byte = 1 / bandwidth;
  return {shares.fixed + ring.fixed + once.fixed, shares.per_byte + ring.per_byte + once.per_byte};
}

CommunicationCost::Messages CommunicationCost::messages_within(const GroupLevels& at,
                                                               const GroupLevels::Host& host) const {
  const double others = double(host.devices.size()) - 1;
  if (native_) return {others, others};  // one of each device, whatever it is made of
  double devices = 0;
  for (const GroupLevels::Host& of : at.hosts) devices += double(of.devices.size());
  return {others * double(at.hosts.size()), others * (devices - double(host.devices.size()))};
}

/// Through the leaders of several hosts. `moved`: bytes that each device hands over, or gets. `past_uplinks`: seconds
/// that these take there, whoever sends them.
double CommunicationCost::exchange_by_host(const GroupLevels& at, const std::vector<double>& moved,
                                           double past_uplinks) const {
  double out = 0, back = 0, between = past_uplinks;
  for (const GroupLevels::Host& host : at.hosts) {
    double of_host = 0;
    for (int d : host.devices) of_host += moved[size_t(d)];
    between = std::max(between, of_host / host.outside.bandwidth_bytes_per_second);
    if (host.devices.size() == 1) continue;
    const Messages messages = messages_within(at, host);
    const double pass = of_host / host.inside.bandwidth_bytes_per_second;
    out = std::max(out, messages.out * host.inside.latency_seconds + pass);
    back = std::max(back, messages.back * host.inside.latency_seconds + pass);
  }
  return out + double(at.hosts.size() - 1) * at.between.latency_seconds + between + back;
}

/// Whatever the devices hold, together they move (n-1)/n of a byte for every byte of the whole.
Line CommunicationCost::least_exchange(const GroupLevels& at) const {
  double devices = 0, bandwidth = 0, outside = 0;
  Line out{HUGE_VAL, 0}, back{HUGE_VAL, 0};
  double most_out = 0, most_back = 0;
  bool alone = false;
  for (const GroupLevels::Host& host : at.hosts) {
    devices += double(host.devices.size());
    outside += host.outside.bandwidth_bytes_per_second;
    alone = alone || host.devices.size() == 1;
    if (host.devices.size() == 1) continue;
    const Messages messages = messages_within(at, host);
    const double latency = host.inside.latency_seconds;
    out.fixed = std::min(out.fixed, messages.out * latency), most_out = std::max(most_out, messages.out * latency);
    back.fixed = std::min(back.fixed, messages.back * latency),
    most_back = std::max(most_back, messages.back * latency);
    bandwidth += host.inside.bandwidth_bytes_per_second;
  }
  const double moved = (devices - 1) / devices;
  if (at.hosts.size() == 1) return {(devices - 1) * at.hosts[0].inside.latency_seconds, moved / devices / bandwidth};
  // As hosts that gather: all may lie on a host of one device.
  if (alone)
    out.fixed = most_out, back.fixed = most_back;
  else
    out.per_byte = back.per_byte = moved / bandwidth;
  const double hosts = double(at.hosts.size());
  return {out.fixed + (hosts - 1) * at.between.latency_seconds + back.fixed,
          out.per_byte + moved / outside + back.per_byte};
}

/// As asked for; if that is left open hierarchically, where that is faster than on one ring, or directly.
template <class Flat, class Levels>
Movement CommunicationCost::realised(int axis, std::optional<Realisation> realisation, const Flat& flat,
                                     const Levels& by_levels) const {
  if (realisation == Realisation::hierarchical) return by_levels();
  Movement directly = flat();
  if (realisation || !has_levels(axis)) return directly;
  Movement levels = by_levels();
  return levels.seconds < directly.seconds ? levels : directly;
}

/// Every device's own link, and the link of its host that all devices of the host share; or through the leaders of
/// hosts.
Movement CommunicationCost::all_to_all(int axis, const std::vector<double>& before, const std::vector<double>& after,
                                       std::optional<Realisation> realisation, Detail detail) const {
  const double n = mesh_.axes[axis].size;
  std::vector<double> leaving(cluster_.hosts.size(), 0), moved(before.size()), whole;
  for (size_t d = 0; d < before.size(); ++d) {
    moved[d] = std::max(before[d], after[d]) * (n - 1) / n;
    if (crosses_[axis][d]) leaving[cluster_.devices[d].host] += moved[d];
  }
  const double past_uplinks = uplinks_[size_t(axis)].exchange_seconds(moved);
  if (detail == Detail::by_device) {
    whole.assign(before.size(), 0);
    for (const Group& group : groups_[axis])
      for (int d : group) whole[group[0]] += before[d];
  }
  const auto directly = [&](const Group& group, const Link& link) {
    double slowest = crosses_[axis][group[0]] ? past_uplinks : 0;
    for (int d : group) {
      int host = cluster_.devices[d].host;
      slowest = std::max(slowest, moved[d] / cluster_.hosts[host].inside.bandwidth_bytes_per_second);
      if (crosses_[axis][d])
        slowest = std::max(slowest, leaving[host] / cluster_.outside(host).bandwidth_bytes_per_second);
    }
    return (n - 1) * link.latency_seconds + slowest;
  };
  const auto by_hosts = [&] {
    Movement out = by_group(axis, whole, detail, [&](const Group& group, const Link& link) {
      const GroupLevels& at = levels(axis, group[0]);
      return at.hosts.size() > 1 ? exchange_by_host(at, moved, past_uplinks) : directly(group, link);
    });
    out.realisation = Realisation::hierarchical;
    return out;
  };
  return realised(
      axis, realisation, [&] { return by_group(axis, whole, detail, directly); }, by_hosts);
}

/// What is held more than before comes from the neighbours on either side.
Movement CommunicationCost::halo_exchange(int axis, const std::vector<double>& before, const std::vector<double>& after,
                                          Detail detail) const {
  std::vector<double> halo;  // in whole bytes: the same whatever parts it lies around
  for (size_t d = 0; d < before.size(); ++d) halo.push_back(std::round(after[d] - before[d]));
  return by_group(axis, halo, detail, [&](const Group& group, const Link& link) {
    double greatest = 0;
    for (int d : group) greatest = std::max(greatest, halo[size_t(d)]);
    return group.size() < 2 ? 0 : 2 * link.latency_seconds + greatest / link.bandwidth_bytes_per_second;
  });
}

/// Passes of every device over so many bytes of its own memory.
Movement CommunicationCost::in_memory(const std::vector<double>& bytes, double passes, Detail detail) const {
  Movement out;
  for (size_t d = 0; d < bytes.size(); ++d) {
    const double seconds = passes * bytes[d] / cluster_.devices[d].memory_bytes_per_second();
    out.seconds = std::max(out.seconds, seconds);
    if (detail == Detail::by_device) out.device_seconds.push_back(seconds);
  }
  return out;
}

Movement CommunicationCost::movement(Opcode opcode, int axis, const std::vector<double>& before,
                                     const std::vector<double>& after, std::optional<Realisation> realisation,
                                     Detail detail) const {
  switch (opcode) {
    case Opcode::slice:
      return in_memory(after, 2, detail);
    case Opcode::to_partial:
      return in_memory(after, 1, detail);
    case Opcode::all_gather:
    case Opcode::reduce_scatter: {
      const auto& whole = opcode == Opcode::all_gather ? after : before;
      const auto& shards = opcode == Opcode::all_gather ? before : after;
      const auto ring = [&] {
        if (realisation) return gathering(axis, whole, shards, *realisation, detail);
        if (native_) return gathering(axis, whole, shards, Realisation::native, detail);
        Movement padded = gathering(axis, whole, shards, Realisation::padded, detail);
        Movement grouped = gathering(axis, whole, shards, Realisation::grouped, detail);
        return grouped.seconds < padded.seconds ? grouped : padded;
      };
      return realised(axis, realisation, ring, [&] { return hierarchical(opcode, axis, whole, shards, detail); });
    }
    case Opcode::all_to_all:
      return all_to_all(axis, before, after, realisation, detail);
    case Opcode::halo_exchange:
      return halo_exchange(axis, before, after, detail);
    case Opcode::all_reduce:
    case Opcode::broadcast: {
      // What is broadcast may lie on one stage alone before.
      const auto ring = [&] {
        return by_group(axis, after, detail, [&](const Group& group, const Link& link) {
          const double hops = double(group.size()) - 1, n = double(group.size());
          const double held = after[group[0]] / link.bandwidth_bytes_per_second;
          return opcode == Opcode::broadcast ? hops * link.latency_seconds + held
                                             : 2 * hops * link.latency_seconds + 2 * hops / n * held;
        });
      };
      return realised(axis, realisation, ring, [&] { return hierarchical(opcode, axis, after, after, detail); });
    }
    case Opcode::send:
    case Opcode::compute:
      break;
  }
  throw InternalError("neither a collective nor a movement in memory");
}

Movement CommunicationCost::send(int axis, int root, int to, const std::vector<double>& before) const {
  auto host_of = [&](int device) { return cluster_.devices[size_t(device)].host; };
  // Both count, by host, the sends that share its link to other hosts.
  std::vector<int> leaving(cluster_.hosts.size(), 0), arriving(cluster_.hosts.size(), 0);
  std::map<int, int> leaving_rack, entering_rack;
  const auto rack_of = [&](int host) { return cluster_.hosts[size_t(host)].rack; };
  for (const Group& group : groups_[size_t(axis)]) {
    const int from = host_of(group[size_t(root)]), target = host_of(group[size_t(to)]);
    if (from != target) ++leaving[size_t(from)], ++arriving[size_t(target)];
    if (rack_of(from) != rack_of(target)) ++leaving_rack[rack_of(from)], ++entering_rack[rack_of(target)];
  }
  Movement out;
  out.device_seconds.assign(before.size(), 0);
  for (const Group& group : groups_[size_t(axis)]) {
    const int from = group[size_t(root)], target = group[size_t(to)];
    const bool crosses = host_of(from) != host_of(target);
    const auto here = size_t(host_of(from)), there = size_t(host_of(target));
    Link link = cluster_.hosts[here].inside;
    if (crosses)
      link = slower(
          cluster_.link(int(here), int(there), leaving[here], arriving[there]),
          cluster_.uplink(int(here), int(there), leaving_rack[rack_of(int(here))], entering_rack[rack_of(int(there))]));
    const double seconds = link.latency_seconds + before[size_t(from)] / link.bandwidth_bytes_per_second;
    out.device_seconds[size_t(from)] = out.device_seconds[size_t(target)] = seconds;
    out.seconds = std::max(out.seconds, seconds);
    out.bytes = std::max(out.bytes, before[size_t(from)]);
  }
  return out;
}

}  // namespace hetsynth::synth
