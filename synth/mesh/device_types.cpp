#include "synth/mesh/device_types.h"

namespace hetsynth::synth {

DeviceTypes device_types(const Cluster& cluster) {
  DeviceTypes types;
  for (int d = 0; d < int(cluster.devices.size()); ++d) {
    size_t t = 0;
    while (t < types.devices.size() && !cluster.same_type(types.devices[t][0], d)) ++t;
    if (t == types.devices.size()) types.devices.emplace_back();
    types.devices[t].push_back(d);
    types.type_of.push_back(int(t));
  }
  return types;
}

}  // namespace hetsynth::synth
