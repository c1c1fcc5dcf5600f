#include "tests/support/cuda/cuda_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "runtime/launch.h"
#include "runtime/rank/host_tensor.h"

namespace hetsynth::testing_support {

class CudaCluster::Inputs : public BatchSource {
 public:
  void fill(const Node& input, std::span<const Range> ranges, int64_t, std::span<std::byte> out) const override {
    const auto found = contents_.find(input.id);
    if (found == contents_.end()) throw std::runtime_error("no contents for input " + input.name);
    copy_part_out(found->second, ranges, out);
  }
  std::string description() const override { return "the test's"; }
  void set(const Node& input, const Array& values) { contents_[input.id] = to_host_tensor(values, input.type.dtype); }

 private:
  std::map<NodeId, HostTensor> contents_;
};

MachineOptions machine_for(const Cluster& cluster) {
  MachineOptions options;
  options.gpus = int(std::count_if(cluster.devices.begin(), cluster.devices.end(),
                                   [](const Device& device) { return device.kind == DeviceKind::cuda; }));
  return options;
}

CudaCluster::CudaCluster(const Program& reference, const SpmdProgram& program, const Cluster& cluster,
                         std::vector<DeviceProgram> programs, uint64_t seed)
    : CudaCluster(reference, program, cluster, machine_for(cluster), std::move(programs), seed) {}

CudaCluster::CudaCluster(const Program& reference, const SpmdProgram& program, const Cluster& cluster,
                         MachineOptions options, std::vector<DeviceProgram> programs, uint64_t seed)
    : reference_(reference), programs_(std::move(programs)), machine_(new CudaDoubles(options)), inputs_(new Inputs) {
  for (const Device& device : cluster.devices) gpu_of_.push_back(device.kind == DeviceKind::cuda ? device.index : -1);
  if (programs_.empty())
    for (int rank = 0; rank < program.mesh.device_count(); ++rank)
      programs_.push_back(generate(reference, program, cluster, rank));
  LaunchOptions launched;
  launched.executor.seed = seed;
  launched.executor.threads.threads_per_rank = 1;
  launched.optimization = 0;
  launched.programs = &programs_;
  launched.cuda = &machine_->backend();
  executor_ = launch(reference, program, cluster, launched);
}

CudaCluster::~CudaCluster() = default;

void CudaCluster::write_leaf(NodeId leaf, const Array& contents) {
  const Node& node = reference_[leaf];
  inputs_->set(node, contents);
  if (node.kind != NodeKind::input) executor_->write(leaf, to_host_tensor(contents, node.type.dtype));
}

void CudaCluster::step(int64_t step, Eager eager, Turns turns) {
  machine_->options().eager = eager;
  machine_->options().turns = turns;
  for (size_t rank = 0; rank < programs_.size(); ++rank) {
    if (gpu_of_[rank] < 0) continue;
    int64_t leaves = 0;
    for (const Slot& slot : programs_[rank].leaves)
      leaves = std::max(leaves, slot.offset_bytes + part_elements(slot.ranges) * size_bytes(slot.dtype));
    leaves = (leaves + 255) / 256 * 256;
    if (programs_[rank].arena_bytes > leaves)
      machine_->poison(gpu_of_[rank], leaves, programs_[rank].arena_bytes - leaves);
  }
  loss_ = executor_->step(step, *inputs_).loss;
}

void CudaCluster::require_equal_copies(NodeId node) const {
  std::map<std::vector<std::pair<int64_t, int64_t>>, std::pair<size_t, const char*>> seen;
  for (size_t rank = 0; rank < programs_.size(); ++rank) {
    if (gpu_of_[rank] < 0) continue;
    for (const auto* slots : {&programs_[rank].leaves, &programs_[rank].outputs})
      for (const Slot& slot : *slots) {
        if (slot.node != node) continue;
        std::vector<std::pair<int64_t, int64_t>> part;
        for (const Range& range : slot.ranges) part.emplace_back(range.lo, range.hi);
        const char* data = machine_->arena(gpu_of_[rank]) + slot.offset_bytes;
        const auto [first, fresh] = seen.insert({part, {rank, data}});
        const size_t bytes = size_t(part_elements(slot.ranges) * size_bytes(slot.dtype));
        if (!fresh && std::memcmp(first->second.second, data, bytes) != 0)
          throw std::runtime_error(fmt::format("ranks {} and {} hold different values of {}", first->second.first, rank,
                                               reference_[node].name));
      }
  }
}

Array CudaCluster::read(NodeId node) const {
  require_equal_copies(node);
  return to_array(executor_->read(node));
}

std::string CudaCluster::leave() {
  executor_.reset();
  return machine_->left_behind();
}

}  // namespace hetsynth::testing_support
