// Meshes over fewer devices than the cluster has: a device, a host or a kind of device that does not pay is left out.
#pragma once
#include <string>
#include <vector>

#include "dsl/cluster/cluster.h"

namespace hetsynth::synth {

/// The cluster reduced to some devices, in the order given, and to the hosts they are on.
Cluster restricted(const Cluster& cluster, const std::vector<int>& devices);

/// The cluster with devices of any memory.
Cluster without_memory_limits(Cluster cluster);

/// Its devices by name: "fast, slow", and a long list by its ends: "gpu[0] .. gpu[15] (16 devices)".
std::string device_list(const Cluster& cluster);

/// Sets of devices worth a plan of their own: all; the devices of one host, for every host that differs from those
/// before it; the fastest kinds of device, one kind more at a time; of several hosts, the fastest first: 2, 4, 8 of
/// them and so on, and, where hosts differ, all but the slowest. Sets of one device are left to the caller. All devices
/// come first, no set comes twice.
std::vector<std::vector<int>> device_subsets(const Cluster& cluster);

}  // namespace hetsynth::synth
