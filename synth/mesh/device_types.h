// Which devices of a cluster are alike.
#pragma once
#include <vector>

#include "dsl/cluster/cluster.h"

namespace hetsynth::synth {

/// Whether two devices are of one type, on hosts with links alike.
bool alike(const Cluster& cluster, int a, int b);

/// Devices of one type share equally: without loss, because every cost is convex in the shares.
struct DeviceTypes {
  std::vector<int> type_of;               ///< by device
  std::vector<std::vector<int>> devices;  ///< by type
};
DeviceTypes device_types(const Cluster& cluster);

}  // namespace hetsynth::synth
