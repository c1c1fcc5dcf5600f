#include "tests/support/cuda/after_step.h"

#include <regex>
#include <stdexcept>

namespace hetsynth::testing_support {
namespace {

constexpr uint64_t seed = 3;

}  // namespace

After after_a_step(const Program& reference, const SpmdProgram& plan, const Cluster& cluster,
                   std::vector<DeviceProgram> devices, MachineOptions options) {
  After out;
  options.gpus = int(cluster.devices.size());
  try {
    CudaCluster machine(reference, plan, cluster, std::move(options), std::move(devices));
    for (const auto& [leaf, contents] : initial_values(reference, seed)) machine.write_leaf(leaf, contents);
    machine.step(0, Eager::random, Turns::shuffled);
    for (const Update& update : reference.updates) {
      const Array found = machine.read(update.target);
      out.values.insert(out.values.end(), found.values.begin(), found.values.end());
    }
    out.problem = machine.leave();
  } catch (const std::exception& error) {
    out.problem = error.what();
  }
  return out;
}

std::vector<double> expected_after_a_step(const Program& reference) {
  const std::vector<Array> values = interpret(reference, initial_values(reference, seed), {});
  std::vector<double> out;
  for (const Update& update : reference.updates)
    out.insert(out.end(), values[size_t(update.value)].values.begin(), values[size_t(update.value)].values.end());
  return out;
}

DeviceProgram damaged(DeviceProgram device, const Fault& fault) {
  std::string& text = device.files.at(0).text;
  const std::string changed =
      std::regex_replace(text, std::regex(fault.from), fault.to, std::regex_constants::format_first_only);
  if (changed == text) throw std::invalid_argument("nothing to damage in\n" + text);
  text = changed;
  return device;
}

}  // namespace hetsynth::testing_support
