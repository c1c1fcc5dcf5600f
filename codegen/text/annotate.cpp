#include "codegen/text/annotate.h"

#include <fmt/format.h>

#include <algorithm>

namespace hetsynth::codegen {

std::string call_text(const std::string& name, const std::vector<std::string>& arguments, size_t before) {
  constexpr size_t width = 120;
  std::string out = name + "(";
  size_t indent = before + out.size() < width / 2 ? before + out.size() : 6, column = before + out.size();
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string argument = arguments[i] + (i + 1 < arguments.size() ? "," : ")");
    if (i > 0 && column + 1 + argument.size() > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (i > 0) {
      out += " ";
      ++column;
    }
    out += argument;
    column += argument.size();
  }
  return arguments.empty() ? out + ")" : out;
}

std::string short_origin_text(const Lowered& lowered, const LocalOp& op) {
  const Node& node = (*lowered.reference)[op.node];
  std::string where = node.where.file.substr(node.where.file.rfind('/') + 1);
  std::string out = node.where.known() ? fmt::format("{}:{}  ", where, node.where.line) : "";
  return out +
         (node.leaf() ? fmt::format("{} ({})", node.name, node.tag()) : fmt::format("{} = {}", node.name, node.tag()));
}

std::string origin_text(const Lowered& lowered, const LocalOp& op) {
  const Node& node = (*lowered.reference)[op.node];
  std::string out = short_origin_text(lowered, op);
  if (node.leaf()) return out;
  out += "(";
  for (size_t j = 0; j < node.inputs.size(); ++j) out += (j ? ", " : "") + (*lowered.reference)[node.inputs[j]].name;
  return out + ")";
}

std::string part_text(const LocalValue& value) {
  std::string out = std::string(name(value.type.dtype)) + "[";
  for (size_t d = 0; d < value.ranges.size(); ++d) {
    const Range& range = value.ranges[d];
    int64_t extent = value.type.shape[d];
    bool whole = range.lo == 0 && range.hi == extent;
    out += d ? ", " : "";
    out += whole ? fmt::format("{}", extent) : fmt::format("{}..{} of {}", range.lo, range.hi, extent);
  }
  return out + "]";
}

std::string bytes_text(int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  if (bytes < 1024 * 1024) return fmt::format("{:.1f} KiB", double(bytes) / 1024);
  return fmt::format("{:.1f} MiB", double(bytes) / (1024 * 1024));
}

int64_t received_bytes(const Lowered& lowered, const LocalOp& op) {
  const int64_t own = op.inputs.empty() ? 0 : lowered.local.values[op.inputs[0].value].count();
  const LocalValue& result = lowered.local.values[op.result];
  int64_t element = size_bytes(result.type.dtype);
  int64_t others = int64_t(lowered.program->mesh.axes.at(op.collective->axis).size) - 1;
  switch (op.collective->opcode) {
    case Opcode::all_gather:
    case Opcode::halo_exchange:
      return (result.count() - own) * element;
    case Opcode::reduce_scatter:
    case Opcode::all_reduce:
      return result.count() * others * element;
    default:
      return result.count() * element;
  }
}

std::string collective_text(const Lowered& lowered, const LocalOp& op) {
  const Instruction& i = *op.collective;
  const std::string &tensor = (*lowered.reference)[op.node].name, &axis = lowered.program->mesh.axes.at(i.axis).name;
  std::string out;
  if (i.opcode == Opcode::send && !op.inputs.empty())
    out = fmt::format("send {} to stage {} of {}", tensor, i.to, axis);
  else if (i.opcode == Opcode::send)
    out = fmt::format("receive {} from stage {} of {}, {} received", tensor, i.root, axis,
                      bytes_text(received_bytes(lowered, op)));
  else
    out = fmt::format("{}{} {} over {}, {} received", i.realisation == Realisation::hierarchical ? "hierarchical " : "",
                      name(i.opcode), tensor, axis, bytes_text(received_bytes(lowered, op)));
  return i.cause.empty() ? out : out + ": " + i.cause;
}

std::string group_name(const Lowered& lowered, const Group& group) {
  // The last stored result of the heaviest role: elements before rows before what is only accumulated.
  const Member* best = &group.members.front();
  auto weight = [](const Member& m) {
    if (!m.stored) return 0;
    return m.role == Role::element ? 3 : m.role == Role::accumulate ? 1 : 2;
  };
  for (const Member& member : group.members)
    if (weight(member) >= weight(*best)) best = &member;
  return lowered.names[lowered.op(*best).result];
}

}  // namespace hetsynth::codegen
