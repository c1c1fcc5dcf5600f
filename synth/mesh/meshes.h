// Which meshes are worth a plan.
#pragma once
#include <vector>

#include "dsl/cluster/cluster.h"
#include "dsl/spmd/spmd.h"

namespace hetsynth::synth {

/// Meshes of two axes over all devices in rank order, the inner one within hosts: hosts x devices of a host first,
/// where hosts have equally many devices; then the other factorisations in which no group of the inner axis crosses
/// hosts, largest inner axis first. Of two that differ by nothing but the order of their axes only the first. None for
/// fewer than four devices or a prime number of them.
std::vector<Mesh> two_axis_meshes(const Cluster& cluster);

/// The same with the outer axis divided in two, the larger depth first: [d, q, q] among them, on which matrices of q x
/// q parts are multiplied by broadcasts along rows and columns, and gradients summed over d.
std::vector<Mesh> three_axis_meshes(const Cluster& cluster);

/// A mesh of up to three axes in rank order: inner, outer before it, depth before that.
Mesh mesh_of(const std::vector<int>& sizes);

}  // namespace hetsynth::synth
