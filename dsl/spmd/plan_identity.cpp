#include <algorithm>

#include "dsl/base/version.h"
#include "dsl/spmd/plan.h"

namespace hetsynth {

Plan identify_plan(const Program& reference, const Cluster& cluster) {
  return identify_plan(reference, hash_text(reference), cluster);
}

Plan identify_plan(const Program& reference, std::string model_hash, const Cluster& cluster) {
  Plan plan;
  plan.tool_version = tool_version();
  plan.model_file = reference.model_file;
  plan.model_hash = std::move(model_hash);
  plan.model_options = reference.options;
  plan.cluster_name = cluster.name;
  plan.cluster_hash = hash_text(cluster);
  for (const Device& d : cluster.devices)
    plan.devices.push_back({d.name, d.kind, d.model, d.architecture,
                            d.measured.epilogues ? d.measured.epilogues : d.declared.epilogues,
                            d.measured.attention ? d.measured.attention : d.declared.attention});
  return plan;
}

Cluster cluster_of(const Plan& plan) {
  Cluster cluster;
  cluster.name = plan.cluster_name;
  cluster.hosts.resize(1);
  for (const PlanDevice& d : plan.devices) {
    Device device;
    device.name = d.name;
    device.kind = d.kind;
    device.model = d.model;
    device.architecture = d.architecture;
    device.declared.epilogues = d.epilogues;
    device.declared.attention = d.attention;
    device.index = int(cluster.devices.size());
    if (plan.prediction.devices.size() == plan.devices.size())
      device.memory_bytes = plan.prediction.devices[cluster.devices.size()].memory_limit_bytes;
    cluster.devices.push_back(std::move(device));
  }
  return cluster;
}

std::vector<std::string> left_out_devices(const Plan& plan, const Cluster& cluster) {
  std::vector<std::string> out;
  for (const Device& device : cluster.devices)
    if (std::none_of(plan.devices.begin(), plan.devices.end(),
                     [&](const PlanDevice& d) { return d.name == device.name; }))
      out.push_back(device.name);
  return out;
}

}  // namespace hetsynth
