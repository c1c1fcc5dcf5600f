#include "synth/mesh/meshes.h"

#include <algorithm>
#include <iterator>

#include "dsl/base/error.h"

namespace hetsynth::synth {
namespace {

/// Whether every run of `inner` devices lies within one host.
bool stays_in_hosts(const Cluster& cluster, int inner) {
  for (size_t d = 0; d < cluster.devices.size(); ++d)
    if (cluster.devices[d].host != cluster.devices[d - d % size_t(inner)].host) return false;
  return true;
}

/// Whether axes can change places: all devices are alike, and so are their links.
bool symmetric(const Cluster& cluster) {
  return cluster.hosts.size() == 1 && std::ranges::all_of(cluster.devices, [&](const Device& device) {
           return cluster.same_type(0, int(&device - cluster.devices.data()));
         });
}

/// Sizes of inner axes.
std::vector<int> inner_axes(const Cluster& cluster) {
  int count = int(cluster.devices.size()), hosts = int(cluster.hosts.size());
  std::vector<int> inner_sizes;
  for (int inner = count / 2; inner > 1; --inner)
    if (count % inner == 0 && stays_in_hosts(cluster, inner)) inner_sizes.push_back(inner);
  std::stable_sort(inner_sizes.begin(), inner_sizes.end(),
                   [&](int a, int b) { return (a * hosts == count) > (b * hosts == count); });
  return inner_sizes;
}

}  // namespace

std::vector<Mesh> two_axis_meshes(const Cluster& cluster) {
  const bool mirrored = symmetric(cluster);
  std::vector<Mesh> meshes;
  for (int inner : inner_axes(cluster))
    if (const int outer = int(cluster.devices.size()) / inner; !mirrored || outer <= inner)
      meshes.push_back(mesh_of({outer, inner}));
  return meshes;
}

std::vector<Mesh> three_axis_meshes(const Cluster& cluster) {
  std::vector<Mesh> meshes;
  for (int inner : inner_axes(cluster)) {
    const int outer = int(cluster.devices.size()) / inner;
    for (int depth = outer / 2; depth > 1; --depth)
      if (outer % depth == 0) meshes.push_back(mesh_of({depth, outer / depth, inner}));
  }
  return meshes;
}

Mesh mesh_of(const std::vector<int>& sizes) {
  static constexpr const char* names[] = {"depth", "outer", "inner"};
  HETSYNTH_CHECK(sizes.size() <= std::size(names), "a mesh of more axes than have names");
  Mesh mesh;
  for (size_t a = 0; a < sizes.size(); ++a) mesh.axes.push_back({names[std::size(names) - sizes.size() + a], sizes[a]});
  return mesh;
}

}  // namespace hetsynth::synth
