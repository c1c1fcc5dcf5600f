// The clusters that tests and benchmarks plan the models of examples/ for.
#pragma once
#include <string>
#include <vector>

namespace hetsynth::testing {

/// Names of all clusters of examples/clusters and bench/clusters, by folder and name.
std::vector<std::string> listed_clusters();

/// The file of a cluster that one of the two folders has, given its name there; else the argument, which is a path.
std::string cluster_file(const std::string& name);

}  // namespace hetsynth::testing
