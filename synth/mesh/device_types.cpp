#include "synth/mesh/device_types.h"

namespace hetsynth::synth {

bool alike(const Cluster& cluster, int a, int b) {
  return cluster.same_type(a, b) &&
         cluster.same_links(cluster.devices.at(size_t(a)).host, cluster.devices.at(size_t(b)).host);
}

DeviceTypes device_types(const Cluster& cluster) {
  DeviceTypes types;
  for (int d = 0; d < int(cluster.devices.size()); ++d) {
    size_t t = 0;
    while (t < types.devices.size() && !alike(cluster, types.devices[t][0], d)) ++t;
    if (t == types.devices.size()) types.devices.emplace_back();
    types.devices[t].push_back(d);
    types.type_of.push_back(int(t));
  }
  return types;
}

}  // namespace hetsynth::synth
