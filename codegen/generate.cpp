#include <fmt/format.h>

#include <algorithm>

#include "codegen/cpu/step_text.h"
#include "codegen/cuda/host/cuda_program.h"
#include "codegen/interface/device_program.h"
#include "codegen/passes/column_products.h"
#include "codegen/passes/lower.h"
#include "dsl/base/error.h"
#include "dsl/ir/space.h"
#include "dsl/spmd/unroll.h"

namespace hetsynth {

namespace {

DeviceProgram generate_flat(const Program& reference, const SpmdProgram& program, const Cluster& cluster, int rank,
                            bool marked, const LeafPlaces* places) {
  if (cluster.devices.at(size_t(rank)).kind == DeviceKind::cuda)
    return codegen::generate_cuda(reference, program, cluster, rank);
  // GPUs carry collectives out in their place, and cpu devices that meet them do so as well.
  codegen::Lowered lowered =
      codegen::lower(reference, program, rank, {}, all_of_kind(cluster.devices, DeviceKind::cpu), places);
  DeviceProgram out = codegen::describe(lowered, cluster);
  out.files.push_back(
      {fmt::format("rank{}.cpp", rank), codegen::cpu_source(lowered, cluster, marked ? &out.marks : nullptr)});
  if (marked) codegen::find_column_products(lowered, out);
  return out;
}

/// Where tensors lie, in terms of the plan with loops.
void name_as_before(DeviceProgram& program, const UnrolledPlan& flat) {
  auto rename = [&](Slot& slot) {
    if (slot.node >= 0) slot.node = flat.node_of[size_t(slot.node)];
    if (slot.value >= 0 && size_t(slot.value) < flat.value_of.size()) slot.value = flat.value_of[size_t(slot.value)];
  };
  for (Slot& slot : program.leaves) rename(slot);
  for (Slot& slot : program.outputs) rename(slot);
  rename(program.loss);
  for (MarkedWork& work : program.marks)
    for (MarkedWork::Part& part : work.parts) {
      part.turn = flat.turn_of[size_t(part.instruction)];
      part.instruction = flat.instruction_of[size_t(part.instruction)];
    }
}

}  // namespace

DeviceProgram generate(const Program& reference, const SpmdProgram& program, const Cluster& cluster, int rank,
                       bool marked, const LeafPlaces* places) {
  const bool turn_by_turn = program.schedules.empty();
  if (reference.loops.empty() || (turn_by_turn && all_of_kind(cluster.devices, DeviceKind::cpu)))
    return generate_flat(reference, program, cluster, rank, marked, places);
  HETSYNTH_CHECK(!places, "leaves of a program whose loops are written out lie as they come");
  // Host programs of cuda devices have no loops; ranks that meet in collectives number them alike. Turns that overlap
  // are written out.
  const UnrolledPlan flat = unroll(reference, program);
  DeviceProgram out = generate_flat(flat.reference, flat.program, cluster, rank, marked, nullptr);
  name_as_before(out, flat);
  return out;
}

std::optional<LeafPlaces> places_beside(const Program& reference, const DeviceProgram& program,
                                        const Program& other_reference, const DeviceProgram& other) {
  LeafPlaces out;
  std::map<std::string, const Slot*> theirs;
  for (const Slot& slot : other.leaves) {
    const int64_t bytes = part_elements(slot.ranges) * size_bytes(slot.dtype);
    out.end_bytes = std::max(out.end_bytes, slot.offset_bytes + bytes);
    if (other_reference[slot.node].kind != NodeKind::input) theirs[other_reference[slot.node].name] = &slot;
  }
  for (const Slot& slot : program.leaves) {
    if (reference[slot.node].kind == NodeKind::input) continue;
    const auto found = theirs.find(reference[slot.node].name);
    if (found == theirs.end() || found->second->ranges != slot.ranges || found->second->dtype != slot.dtype)
      return std::nullopt;
    out.offset_bytes[slot.node] = found->second->offset_bytes;
  }
  return out;
}

}  // namespace hetsynth
