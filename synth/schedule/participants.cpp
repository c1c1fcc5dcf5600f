#include "synth/schedule/participants.h"

#include "synth/schedule/price.h"

namespace hetsynth {
namespace {

Participants participants(const Mesh& mesh, const std::vector<char>& takes) {
  Participants out;
  out.place.assign(takes.size(), -1);
  for (size_t d = 0; d < takes.size(); ++d) {
    if (!takes[d]) continue;
    out.place[d] = int(out.devices.size());
    out.devices.push_back(int(d));
  }
  for (int axis = 0; axis < int(mesh.axes.size()); ++axis) {
    out.groups.emplace_back();
    for (int d = 0; d < int(takes.size()); ++d) {
      if (mesh.coordinate(d, axis) != 0) continue;
      out.groups.back().emplace_back();
      for (const int member : mesh.group(d, axis))
        if (takes[size_t(member)]) out.groups.back().back().push_back(member);
    }
  }
  return out;
}

/// What says who takes part: of a computation its stages, of a movement where its operand lies as well.
std::vector<int> kind_of(const SpmdProgram& program, const Instruction& instruction) {
  std::vector<int> out{int(instruction.opcode == Opcode::compute)};
  if (instruction.opcode == Opcode::compute) {
    for (const Split& split : instruction.splits) out.push_back(split.stage);
    return out;
  }
  const bool sends = instruction.opcode == Opcode::send;
  out.insert(out.end(), {instruction.axis, sends ? instruction.root : -1, sends ? instruction.to : -1});
  for (const Placement& p : program.values[size_t(instruction.operands.at(0))].placements)
    out.push_back(p.kind == Placement::Kind::stage ? p.at : -1);
  return out;
}

}  // namespace

ParticipantsOf::ParticipantsOf(const SpmdProgram& program) {
  const auto devices = size_t(program.mesh.device_count());
  const bool staged = has_stages(program);
  std::map<std::vector<int>, const Participants*> by_kind;
  for (const Instruction& instruction : program.instructions) {
    const auto [it, fresh] = by_kind.try_emplace(staged ? kind_of(program, instruction) : std::vector<int>(), nullptr);
    if (fresh) {
      std::vector<char> takes(devices, 1);
      for (size_t d = 0; d < devices && staged; ++d) takes[d] = takes_part(program, instruction, int(d));
      const auto [known, first] = known_.try_emplace(takes);
      if (first) known->second = participants(program.mesh, takes);
      it->second = &known->second;
    }
    by_instruction_.push_back(it->second);
  }
}

}  // namespace hetsynth
