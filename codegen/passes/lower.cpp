#include "codegen/passes/lower.h"

#include <algorithm>

namespace hetsynth::codegen {

ValueId Lowered::storage(ValueId value) const {
  const Layout& layout = layouts.of[value];
  return layout.offset == 0 && memory.offset_bytes[layout.buffer] == memory.offset_bytes[value] ? layout.buffer : value;
}

Lowered lower(const Program& reference, const SpmdProgram& program, int rank, const GroupingOptions& options,
              bool beside, const LeafPlaces* places) {
  Lowered out{&reference, &program, localize(reference, program, rank), {}, {}, {}, {}};
  std::vector<FusedAttention> attention;
  if (options.fuse_attention) attention = fuse_attention(out.local, reference);
  out.layouts = lay_out(out.local);
  out.groups = group(out.local, out.layouts, attention, options);
  std::vector<int> bucket_of;  // by value
  if (beside) {
    bucket_of.assign(out.local.values.size(), -1);
    for (const Instruction& instruction : program.instructions)
      // What is sent in a loop whose turns follow each other is waited for at once.
      if (loop_of(reference, program, instruction) < 0) bucket_of[size_t(instruction.result)] = instruction.bucket;
  }
  out.memory = plan_memory(out.local, out.groups, out.layouts, bucket_of, program.taken_over, places);
  out.names = name_values(out.local, reference);
  return out;
}

namespace {

std::vector<NamedBytes> largest_tensors(const Lowered& lowered, size_t most) {
  std::vector<NamedBytes> out;
  for (size_t v = 0; v < lowered.local.values.size(); ++v) {
    const LocalValue& value = lowered.local.values[v];
    if (lowered.memory.offset_bytes[v] >= 0 && lowered.layouts.of[v].buffer == ValueId(v))
      out.push_back({lowered.names[v], value.count() * size_bytes(value.type.dtype)});
  }
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  if (out.size() > most) out.resize(most);
  return out;
}

}  // namespace

DeviceProgram describe(const Lowered& lowered, const Cluster& cluster) {
  DeviceProgram out;
  out.rank = lowered.local.rank;
  const Device& device = cluster.devices.at(out.rank);
  out.kind = device.kind;
  out.architecture = device.architecture;
  out.arena_bytes = lowered.memory.arena_bytes;
  auto slot = [&](NodeId node, ValueId value) {
    const LocalValue& local = lowered.local.values[value];
    return Slot{node, lowered.local.planned(value), lowered.memory.offset_bytes[value], local.ranges, local.type.dtype};
  };
  for (ValueId leaf : lowered.local.leaves) out.leaves.push_back(slot(lowered.local.values[leaf].node, leaf));
  for (const auto& [node, value] : lowered.local.outputs) out.outputs.push_back(slot(node, value));
  out.largest_tensors = largest_tensors(lowered, 3);
  if (lowered.local.loss >= 0) out.loss = slot(lowered.reference->loss, lowered.local.loss);
  return out;
}

}  // namespace hetsynth::codegen
