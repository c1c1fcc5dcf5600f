#include "codegen/lower.h"

namespace hetsynth::codegen {

ValueId Lowered::storage(ValueId value) const {
  const Layout& layout = layouts.of[value];
  return layout.offset == 0 && memory.offset_bytes[layout.buffer] == memory.offset_bytes[value] ? layout.buffer : value;
}

Lowered lower(const Program& reference, const SpmdProgram& program, int rank, const GroupingOptions& options) {
  Lowered out{&reference, &program, localize(reference, program, rank), {}, {}, {}, {}};
  std::vector<FusedAttention> attention;
  if (options.fuse_attention) attention = fuse_attention(out.local, reference);
  out.layouts = lay_out(out.local);
  out.groups = group(out.local, out.layouts, attention, options);
  out.memory = plan_memory(out.local, out.groups, out.layouts);
  out.names = name_values(out.local, reference);
  return out;
}

DeviceProgram describe(const Lowered& lowered, const Cluster& cluster) {
  DeviceProgram out;
  out.rank = lowered.local.rank;
  const Device& device = cluster.devices.at(out.rank);
  out.kind = device.kind;
  out.architecture = device.architecture;
  out.arena_bytes = lowered.memory.arena_bytes;
  auto slot = [&](NodeId node, ValueId value) {
    const LocalValue& local = lowered.local.values[value];
    return Slot{node, value, lowered.memory.offset_bytes[value], local.ranges, local.type.dtype};
  };
  for (ValueId leaf : lowered.local.leaves) out.leaves.push_back(slot(lowered.local.values[leaf].node, leaf));
  for (const auto& [node, value] : lowered.local.outputs) out.outputs.push_back(slot(node, value));
  if (lowered.local.loss >= 0) out.loss = slot(lowered.reference->loss, lowered.local.loss);
  return out;
}

}  // namespace hetsynth::codegen
