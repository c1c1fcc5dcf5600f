#include "synth/stages/device_groups.h"

#include <algorithm>
#include <map>
#include <utility>

#include "synth/mesh/device_types.h"

namespace hetsynth::synth {
namespace {

/// Compares the first devices alone, as those of one group are alike.
bool alike(const Cluster& cluster, const std::vector<int>& a, const std::vector<int>& b) {
  const auto host = [&](int device) { return cluster.devices[size_t(device)].host; };
  const auto across = [&](const std::vector<int>& group) { return host(group.front()) != host(group.back()); };
  return synth::alike(cluster, a.front(), b.front()) && across(a) == across(b);
}

}  // namespace

DeviceGroups groups_of(const Cluster& cluster, int size) {
  DeviceGroups out;
  out.size = size;
  const auto wanted = size_t(size);
  for (const std::vector<int>& devices : device_types(cluster).devices) {
    std::map<int, std::vector<int>> by_host;
    for (const int device : devices) by_host[cluster.devices[size_t(device)].host].push_back(device);
    std::vector<int> gathered;  // whole hosts of a group of several
    for (const auto& [host, here] : by_host) {
      if (here.size() >= wanted) {
        for (size_t first = 0; first + wanted <= here.size(); first += wanted)
          out.groups.emplace_back(here.begin() + long(first), here.begin() + long(first + wanted));
        continue;
      }
      if (wanted % here.size() != 0) continue;
      gathered.insert(gathered.end(), here.begin(), here.end());
      if (gathered.size() == wanted) out.groups.push_back(std::exchange(gathered, {}));
      if (gathered.size() > wanted) gathered.clear();
    }
  }
  for (int group = 0; group < int(out.groups.size()); ++group) {
    const auto same = std::ranges::find_if(out.kinds, [&](const std::vector<int>& kind) {
      return alike(cluster, out.groups[size_t(kind[0])], out.groups[size_t(group)]);
    });
    if (same == out.kinds.end())
      out.kinds.push_back({group});
    else
      same->push_back(group);
  }
  return out;
}

std::vector<int> group_sizes(const Cluster& cluster, size_t most) {
  std::vector<int> out;
  for (int size = 1; 2 * size <= int(cluster.devices.size()); size *= 2)
    if (const size_t groups = groups_of(cluster, size).groups.size(); groups >= 2 && groups <= most)
      out.push_back(size);
  return out;
}

}  // namespace hetsynth::synth
