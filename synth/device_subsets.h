// Meshes over fewer devices than the cluster has: a device, a host or a kind of device that does not pay is left out.
#pragma once
#include <vector>

#include "dsl/spmd/cluster.h"

namespace hetsynth::synth {

/// The cluster reduced to some devices, in the order given, and to the hosts they are on.
Cluster restricted(const Cluster& cluster, const std::vector<int>& devices);

/// Sets of devices worth a plan of their own: all; the fastest kinds of device, one kind more at a time; the devices of
/// one host, for every host that differs from those before it. Sets of one device are left to the caller. All devices
/// come first, no set comes twice.
std::vector<std::vector<int>> device_subsets(const Cluster& cluster);

}  // namespace hetsynth::synth
