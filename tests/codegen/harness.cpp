#include "harness.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include "codegen/interface/abi.h"
#include "dsl/jit/compiled_code.h"
#include "runtime/abi/abi.h"
#include "runtime/collectives/shared_memory_communicator.h"
#include "runtime/rank/host_tensor.h"

namespace hetsynth::test {

Cluster cpu_cluster(int count) {
  Cluster cluster;
  cluster.hosts = {{"host", {}}};
  for (int i = 0; i < count; ++i) {
    Device device;
    device.name = fmt::format("cpu{}", i);
    device.index = i;
    cluster.devices.push_back(device);
  }
  return cluster;
}

Cluster unequal_cluster(const std::vector<double>& speeds) {
  Cluster cluster = cpu_cluster(int(speeds.size()));
  cluster.hosts[0].inside = {10e9, 1e-6};
  for (size_t i = 0; i < speeds.size(); ++i) {
    cluster.devices[i].memory_bytes = int64_t(8) << 30;
    cluster.devices[i].declared = {speeds[i], 1e10};
  }
  return cluster;
}

SpmdProgram whole_program(const Program& reference) {
  SpmdProgram out;
  out.mesh.axes = {{"all", 1}};
  for (const Node& node : reference.nodes) {
    out.values.push_back({node.name + "@R", node.id, {Placement::replicated()}});
    if (node.leaf()) {
      out.leaves.push_back(node.id);
      continue;
    }
    Instruction instruction;
    instruction.node = instruction.result = node.id;
    instruction.operands = node.inputs;
    instruction.splits = {Split{}};
    out.instructions.push_back(instruction);
  }
  for (const TurnLoop& loop : reference.loops)
    for (const TurnLoop::Carry& c : loop.carries) out.carried.push_back({c.carry, c.next});
  for (const Update& update : reference.updates) out.finals.push_back({update.target, update.value});
  out.loss = reference.loss;
  return out;
}

NativeModule compile(const std::string& text, int optimization) {
  CompileOptions options;
  options.optimization = optimization;
  std::map<std::string, void*> symbols;
  for (const auto& [name, address] : abi_symbols()) symbols[name] = address;
  return load_native(text, options, symbols);
}

struct GeneratedRun::Arena {
  std::vector<char> bytes;
  char* data = nullptr;
  explicit Arena(int64_t size) : bytes(size_t(size) + 64) {
    data = bytes.data() + (64 - reinterpret_cast<uintptr_t>(bytes.data()) % 64) % 64;
    // Memory that a program reads before writing it shows as NaN.
    std::memset(bytes.data(), 0xff, bytes.size());
  }
};

GeneratedRun::GeneratedRun(const Program& reference, const SpmdProgram& program, int optimization)
    : reference_(reference), program_(program) {
  int ranks = program.mesh.device_count();
  for (int rank = 0; rank < ranks; ++rank) {
    devices_.push_back(generate(reference, program, cpu_cluster(ranks), rank));
    modules_.push_back(compile(devices_.back().files.at(0).text, optimization));
    arenas_.push_back(std::make_unique<Arena>(devices_.back().arena_bytes));
  }
}

GeneratedRun::~GeneratedRun() = default;

void GeneratedRun::write(NodeId leaf, const Array& whole) {
  for (size_t rank = 0; rank < devices_.size(); ++rank)
    for (const Slot& slot : devices_[rank].leaves) {
      if (slot.node != leaf) continue;
      HostTensor tensor = to_host_tensor(whole, slot.dtype);
      std::span<std::byte> part(reinterpret_cast<std::byte*>(arenas_[rank]->data + slot.offset_bytes),
                                size_t(part_elements(slot.ranges) * size_bytes(slot.dtype)));
      copy_part_out(tensor, slot.ranges, part);
    }
}

bool GeneratedRun::step(const EvaluationContext& context) {
  std::vector<std::string> names;
  for (size_t rank = 0; rank < devices_.size(); ++rank) names.push_back(fmt::format("cpu{}", rank));
  RunState state(names);
  auto communicators = shared_memory_communicators(program_.mesh, std::vector<double>(devices_.size(), 1.0), state);
  state.begin();
  std::vector<int> results(devices_.size(), -1);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < devices_.size(); ++rank)
    threads.emplace_back([&, rank] {
      HetsynthContext c{arenas_[rank]->data, context.step, context.seed, communicators[rank].get(), nullptr, nullptr};
      results[rank] = modules_[rank].function<int(HetsynthContext*)>("hetsynth_step")(&c);
      state.set_finished(int(rank));
    });
  for (std::thread& thread : threads) thread.join();
  state.rethrow_failure();
  return std::all_of(results.begin(), results.end(), [](int r) { return r == 0; });
}

Array GeneratedRun::read(NodeId node) const {
  const TensorType& type = reference_[node].type;
  HostTensor whole(type);
  std::vector<bool> seen(size_t(element_count(type.shape)), false);
  for (size_t rank = 0; rank < devices_.size(); ++rank) {
    std::vector<Slot> slots = devices_[rank].leaves;
    slots.insert(slots.end(), devices_[rank].outputs.begin(), devices_[rank].outputs.end());
    for (const Slot& slot : slots) {
      if (slot.node != node) continue;
      const char* part = arenas_[rank]->data + slot.offset_bytes;
      for_each_run(type.shape, slot.ranges, [&](int64_t global, int64_t local, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
          std::byte* to = whole.bytes.data() + (global + i) * 4;
          const char* from = part + (local + i) * 4;
          if (seen[size_t(global + i)] && std::memcmp(to, from, 4) != 0)
            throw InternalError(fmt::format("ranks disagree on element {} of {}", global + i, reference_[node].name));
          std::memcpy(to, from, 4);
          seen[size_t(global + i)] = true;
        }
      });
    }
  }
  for (size_t i = 0; i < seen.size(); ++i)
    if (!seen[i]) throw InternalError(fmt::format("nobody holds element {} of {}", i, reference_[node].name));
  return to_array(whole);
}

double GeneratedRun::loss() const {
  float value = 0;
  std::memcpy(&value, arenas_[0]->data + devices_[0].loss.offset_bytes, 4);
  return value;
}

Array random_array(const TensorType& type, double low, double high, uint64_t seed) {
  std::mt19937_64 generator(seed);
  Array out(type.shape);
  for (double& v : out.values) {
    if (type.dtype == DType::i32)
      v = double(std::uniform_int_distribution<int64_t>(int64_t(low), int64_t(high))(generator));
    else
      v = double(float(std::uniform_real_distribution<double>(low, high)(generator)));
  }
  return out;
}

}  // namespace hetsynth::test
