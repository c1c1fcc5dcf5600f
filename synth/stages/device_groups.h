// The devices of a cluster as groups for the stages of a pipeline.
#pragma once
#include <vector>

#include "dsl/cluster/cluster.h"

namespace hetsynth::synth {

/// Groups of as many devices of one type each. Of one host, or of several whole hosts; a device that is left over is in
/// no group.
struct DeviceGroups {
  int size = 1;
  std::vector<std::vector<int>> groups;  ///< devices in rank order
  std::vector<std::vector<int>> kinds;   ///< by kind: its groups, which have the same devices and links
};

DeviceGroups groups_of(const Cluster& cluster, int size);

/// Sizes that make at least two groups and at most `most`, the smallest first.
std::vector<int> group_sizes(const Cluster& cluster, size_t most);

}  // namespace hetsynth::synth
