#include "synth/schedule/price.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dsl/base/error.h"
#include "synth/model/problem.h"

namespace hetsynth {
namespace synth {

Pricer::Pricer(const Problem& problem, const SpmdProgram& program, const CommunicationCost* communication)
    : problem_(problem),
      program_(program),
      communication_(communication ? *communication : problem.cost.communication()),
      staged_(has_stages(program)) {
  HETSYNTH_CHECK(problem.cost.device_count() == program.mesh.device_count(), "one device per rank");
  for (const BoundaryTable& table : program.tables) {
    parts_.emplace_back();
    for (int d = 0; d < problem.cost.device_count(); ++d) {
      const size_t at = size_t(problem.cost.coordinate(d, table.axis));
      const std::vector<int64_t>& bounds = table.bounds_of(program.mesh, d);
      // Of the parts of another axis: the product of both is what a device has of all.
      const int64_t whole = bounds.back() - bounds.front();
      parts_.back().push_back(whole == 0 ? 0 : double(bounds[at + 1] - bounds[at]) / double(whole));
    }
  }
}

std::vector<double> Pricer::held_bytes(ValueId id) const {
  std::vector<double> bytes;
  bytes.reserve(size_t(problem_.cost.device_count()));
  for (int d = 0; d < problem_.cost.device_count(); ++d) bytes.push_back(held_bytes(id, d));
  return bytes;
}

double Pricer::held_bytes(ValueId id, int device) const {
  const Value& value = program_.values[id];
  if (staged_ && !holds(program_.mesh, value.placements, device)) return 0;
  double bytes = double(problem_.cost.bytes(value.node));
  for (const Placement& placement : value.placements)
    if (placement.kind == Placement::Kind::sharded)
      bytes *= parts(placement.table)[size_t(device)] + overlap(problem_.program[value.node], placement);
  return bytes;
}

InstructionPrice Pricer::computation(const Instruction& instruction) const {
  Option option;
  for (size_t axis = 0; axis < instruction.splits.size(); ++axis) option.factor[axis] = instruction.splits[axis].factor;
  const Work work = problem_.cost.work(instruction.node, option);
  InstructionPrice out;
  for (int d = 0; d < problem_.cost.device_count(); ++d) {
    Parts own = whole_part;
    for (size_t axis = 0; axis < instruction.splits.size(); ++axis)
      if (instruction.splits[axis].factor >= 0) own[axis] = parts(instruction.splits[axis].table)[size_t(d)];
    out.device_seconds.push_back(problem_.cost.device_seconds(work, own, d));
    out.device_flops.push_back(problem_.cost.device_flops(work, own));
  }
  return out;
}

/// What the price depends on: repeated layers have few contents.
const std::vector<int64_t>& Pricer::content(const Instruction& instruction) const {
  const auto& program = problem_.program;
  std::vector<int64_t>& out = content_;
  out.assign({int64_t(instruction.opcode)});
  if (instruction.opcode == Opcode::compute) {
    out.push_back(problem_.cost.work_kind(instruction.node));
    for (const Split& split : instruction.splits) out.insert(out.end(), {split.factor, split.table});
  } else {
    const int64_t times = std::llround(moved_times(program, program_.values[instruction.result].node));
    out.insert(out.end(),
               {instruction.axis, instruction.root, instruction.to, int64_t(instruction.realisation), times});
  }
  const auto add_value = [&](ValueId id) {
    const Value& value = program_.values[id];
    out.push_back(problem_.cost.bytes(value.node));
    for (const Placement& p : value.placements)
      out.insert(out.end(), {int64_t(p.kind), p.dim, p.table, int64_t(p.reduce), p.at, p.before, p.after});
  };
  for (ValueId operand : instruction.operands) add_value(operand);
  add_value(instruction.result);
  return out;
}

const InstructionPrice& Pricer::price(const Instruction& instruction) const {
  auto [it, fresh] = known_.try_emplace(content(instruction));
  if (fresh) it->second = worked_out(instruction);
  return it->second;
}

InstructionPrice Pricer::worked_out(const Instruction& instruction) const {
  InstructionPrice out;
  if (instruction.opcode == Opcode::compute) {
    out = computation(instruction);
  } else {
    Movement moved =
        instruction.opcode == Opcode::send
            ? communication_.send(instruction.axis, instruction.root, instruction.to,
                                  held_bytes(instruction.operands[0]))
            : communication_.movement(instruction.opcode, instruction.axis, held_bytes(instruction.operands[0]),
                                      held_bytes(instruction.result), instruction.realisation);
    const double times = moved_times(problem_.program, program_.values[instruction.result].node);
    out.bytes = times * moved.bytes;
    out.device_seconds = std::move(moved.device_seconds);
    for (double& seconds : out.device_seconds) seconds *= times;
    out.device_flops.assign(out.device_seconds.size(), 0);
  }
  for (size_t d = 0; staged_ && d < out.device_seconds.size(); ++d)
    if (!takes_part(program_, instruction, int(d))) out.device_seconds[d] = out.device_flops[d] = 0;
  out.seconds = *std::max_element(out.device_seconds.begin(), out.device_seconds.end());
  out.seconds = to_seconds(to_picoseconds(out.seconds));
  return out;
}

std::vector<InstructionPrice> price_instructions(const Problem& problem, const SpmdProgram& program) {
  Pricer pricer(problem, program);
  std::vector<InstructionPrice> prices;
  for (const Instruction& instruction : program.instructions) prices.push_back(pricer.price(instruction));
  return prices;
}

Problem problem_of(const Program& reference, const SpmdProgram& program, const Cluster& cluster) {
  const int axes = int(program.mesh.axes.size());
  if (axes > max_axes)
    throw UserError({.tag = "mesh",
                     .message = "plans on so many mesh axes are not priced",
                     .expected = fmt::format("at most {} axes", max_axes),
                     .found = fmt::format("{}", axes),
                     .mend = "plan on fewer axes"});
  // On one device nothing is cut.
  return {std::make_shared<const Analysis>(reference, program.mesh.device_count() > 1 ? axes : 0), cluster,
          program.mesh};
}

}  // namespace synth

std::vector<InstructionPrice> price_instructions(const Program& reference, const SpmdProgram& program,
                                                 const Cluster& cluster) {
  return synth::price_instructions(synth::problem_of(reference, program, cluster), program);
}

bool has_stages(const SpmdProgram& program) {
  const auto staged = [](const Placement& placement) { return placement.kind == Placement::Kind::stage; };
  return std::ranges::any_of(program.values, [&](const Value& v) { return std::ranges::any_of(v.placements, staged); });
}

int stage_count(const SpmdProgram& program) { return has_stages(program) ? program.mesh.axes[0].size : 1; }

double step_seconds(const std::vector<InstructionPrice>& prices) {
  synth::Picoseconds total = 0;
  for (const InstructionPrice& price : prices) total += synth::to_picoseconds(price.seconds);
  return synth::to_seconds(total);
}

}  // namespace hetsynth
