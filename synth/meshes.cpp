#include "synth/meshes.h"

#include <algorithm>

namespace hetsynth::synth {
namespace {

/// Whether every run of `inner` devices lies within one host.
bool stays_in_hosts(const Cluster& cluster, int inner) {
  for (size_t d = 0; d < cluster.devices.size(); ++d)
    if (cluster.devices[d].host != cluster.devices[d - d % size_t(inner)].host) return false;
  return true;
}

}  // namespace

std::vector<Mesh> two_axis_meshes(const Cluster& cluster) {
  int count = int(cluster.devices.size()), hosts = int(cluster.hosts.size());
  std::vector<int> inner_sizes;
  for (int inner = count / 2; inner > 1; --inner)
    if (count % inner == 0 && stays_in_hosts(cluster, inner)) inner_sizes.push_back(inner);
  std::stable_sort(inner_sizes.begin(), inner_sizes.end(),
                   [&](int a, int b) { return (a * hosts == count) > (b * hosts == count); });
  std::vector<Mesh> meshes;
  for (int inner : inner_sizes) meshes.push_back({{{"outer", count / inner}, {"inner", inner}}});
  return meshes;
}

}  // namespace hetsynth::synth
