#include "codegen/text/collective_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "dsl/base/error.h"
#include "dsl/spmd/hosts.h"

namespace hetsynth::codegen {
namespace {

constexpr std::pair<std::string_view, std::string_view> declarations[] = {
    {"hetsynth_begin",
     R"(// The next `members` collectives, the first of this number, are carried out together and beside what follows, until hetsynth_end of
// the same number: then their destinations are there, and their sources may be overwritten.
extern "C" int hetsynth_begin(HetsynthContext*, int id, int members);
extern "C" int hetsynth_end(HetsynthContext*, int id);
)"},
    {"hetsynth_all_gather",
     R"(extern "C" int hetsynth_all_gather(HetsynthContext*, int id, int axis, const void* source, void* destination, long outer, long inner,
                                   const long* bounds, int type);
)"},
    {"hetsynth_all_reduce",
     R"(extern "C" int hetsynth_all_reduce(HetsynthContext*, int id, int axis, const void* source, void* destination, long count, int reduce,
                                   int type);
)"},
    {"hetsynth_reduce_scatter",
     R"(extern "C" int hetsynth_reduce_scatter(HetsynthContext*, int id, int axis, const void* source, void* destination, long outer,
                                       long inner, const long* bounds, int reduce, int type);
)"},
    {"hetsynth_all_to_all",
     R"(extern "C" int hetsynth_all_to_all(HetsynthContext*, int id, int axis, const void* source, void* destination, const long* extents,
                                   int from_first, const long* bounds_from, const long* bounds_to, int type);
)"},
    {"hetsynth_halo_exchange",
     R"(extern "C" int hetsynth_halo_exchange(HetsynthContext*, int id, int axis, const void* source, void* destination, long outer, long inner,
                                      const long* bounds, long before, long after, int type);
)"},
    {"hetsynth_broadcast",
     R"(extern "C" int hetsynth_broadcast(HetsynthContext*, int id, int axis, const void* source, void* destination, long count, int root,
                                  int type);
)"},
    {"hetsynth_hierarchical_all_gather",
     R"(extern "C" int hetsynth_hierarchical_all_gather(HetsynthContext*, int id, int axis, const void* source, void* destination, long outer,
                                                long inner, const long* bounds, int type, const long* hosts);
)"},
    {"hetsynth_hierarchical_all_reduce",
     R"(extern "C" int hetsynth_hierarchical_all_reduce(HetsynthContext*, int id, int axis, const void* source, void* destination, long count,
                                                int reduce, int type, const long* hosts);
)"},
    {"hetsynth_hierarchical_reduce_scatter",
     R"(extern "C" int hetsynth_hierarchical_reduce_scatter(HetsynthContext*, int id, int axis, const void* source, void* destination,
                                                    long outer, long inner, const long* bounds, int reduce, int type, const long* hosts);
)"},
    {"hetsynth_hierarchical_all_to_all",
     R"(extern "C" int hetsynth_hierarchical_all_to_all(HetsynthContext*, int id, int axis, const void* source, void* destination,
                                                const long* extents, int from_first, const long* bounds_from, const long* bounds_to,
                                                int type, const long* hosts);
)"},
    {"hetsynth_hierarchical_broadcast",
     R"(extern "C" int hetsynth_hierarchical_broadcast(HetsynthContext*, int id, int axis, const void* source, void* destination, long count,
                                               int root, int type, const long* hosts);
)"},
    {"hetsynth_send",
     R"(extern "C" int hetsynth_send(HetsynthContext*, int id, int axis, const void* source, long count, int to, int type);
)"},
    {"hetsynth_receive",
     R"(extern "C" int hetsynth_receive(HetsynthContext*, int id, int axis, void* destination, long count, int from, int type);
)"},
};

}  // namespace

std::string collective_declarations(const std::string& calls) {
  std::string out;
  for (const auto& [name, text] : declarations)
    if (calls.find(name) != std::string::npos) out += "\n" + std::string(text);
  return out;
}

/// Boundary table in elements of a dimension, as an array of the text.
std::string CollectiveText::table(int table, int64_t extent) {
  const BoundaryTable& t = lowered_.program->tables.at(size_t(table));
  auto [entry, fresh] = tables_.insert({{table, unit_of(t, extent)}, ""});
  if (fresh) {
    entry->second = names_.take("bounds_" + t.name);
    const std::vector<int64_t> bounds = bounds_in_elements(*lowered_.program, table, extent, lowered_.local.rank);
    tables_text_ +=
        fmt::format("static const long {}[] = {{{}}};  // of {} elements over {}\n", entry->second,
                    fmt::join(bounds, ", "), bounds.back(), lowered_.program->mesh.axes[size_t(t.axis)].name);
  }
  return entry->second;
}

/// Host by host, in coordinate order: the ranks along an axis.
std::string CollectiveText::hosts(int axis) {
  auto [entry, fresh] = hosts_.insert({axis, ""});
  if (fresh) {
    const std::string& over = lowered_.program->mesh.axes[size_t(axis)].name;
    entry->second = names_.take("hosts_" + over);
    tables_text_ += fmt::format(
        "static const long {}[] = {{{}}};  // number of the host of each rank over {}\n", entry->second,
        fmt::join(hosts_of_group(*lowered_.program, axis, lowered_.local.rank).by_coordinate(), ", "), over);
  }
  return entry->second;
}

CollectiveText::CollectiveText(const Lowered& lowered, Names& table_names) : lowered_(lowered), names_(table_names) {
  made_by_.assign(lowered.program->values.size(), -1);
  const std::vector<Instruction>& all = lowered.program->instructions;
  for (size_t n = 0; n < all.size(); ++n) made_by_[size_t(all[n].result)] = int(n);
}

std::string CollectiveText::call(const LocalOp& op, const std::string& source, const std::string& destination,
                                 std::string& before) {
  const Instruction& i = *op.collective;
  const LocalValue& result = lowered_.local.values[size_t(op.result)];
  int type = int(result.type.dtype);  // numbered alike
  if (i.opcode == Opcode::send && !op.inputs.empty())
    return fmt::format("hetsynth_send(context, {}, {}, {}, {}, {}, {})", id(i), i.axis, source,
                       lowered_.local.values[size_t(op.inputs[0].value)].count(), i.to, type);
  if (i.opcode == Opcode::send)
    return fmt::format("hetsynth_receive(context, {}, {}, {}, {}, {}, {})", id(i), i.axis, destination, result.count(),
                       i.root, type);
  std::string rest;
  switch (i.opcode) {
    case Opcode::all_gather:
    case Opcode::reduce_scatter:
    case Opcode::halo_exchange: {
      int64_t outer = part_elements(result.ranges, 0, size_t(i.dim)),
              inner = part_elements(result.ranges, size_t(i.dim) + 1, result.ranges.size());
      rest = fmt::format("{}, {}, {}", outer, inner, table(i.table, result.type.shape[size_t(i.dim)]));
      if (i.opcode == Opcode::reduce_scatter) rest += fmt::format(", {}", int(i.reduce));
      if (i.opcode == Opcode::halo_exchange) rest += fmt::format(", {}, {}", i.before, i.after);
      break;
    }
    case Opcode::all_reduce:
      rest = fmt::format("{}, {}", result.count(), int(i.reduce));
      break;
    case Opcode::broadcast:
      rest = fmt::format("{}, {}", result.count(), i.root);
      break;
    case Opcode::all_to_all:
      rest = exchange_arguments(op, before);
      break;
    default:
      throw InternalError("not a collective");
  }
  if (i.realisation == Realisation::hierarchical)
    return fmt::format("hetsynth_hierarchical_{}(context, {}, {}, {}, {}, {}, {}, {})", name(i.opcode), id(i), i.axis,
                       source, destination, rest, type, hosts(i.axis));
  return fmt::format("hetsynth_{}(context, {}, {}, {}, {}, {}, {})", name(i.opcode), id(i), i.axis, source, destination,
                     rest, type);
}

std::string CollectiveText::exchange_arguments(const LocalOp& op, std::string& before) {
  const Instruction& i = *op.collective;
  const LocalValue& source = lowered_.local.values[size_t(op.inputs[0].value)];
  std::vector<Range> whole = source.ranges;
  // What the group holds together: all, or the part that another axis leaves it.
  whole[size_t(i.dim)] = {
      0, bounds_in_elements(*lowered_.program, i.table, source.type.shape[size_t(i.dim)], lowered_.local.rank).back()};
  size_t first = size_t(std::min(i.dim, i.to_dim)), second = size_t(std::max(i.dim, i.to_dim));
  before = fmt::format("const long extents_{}[] = {{{}, {}, {}, {}, {}}};", id(i), part_elements(whole, 0, first),
                       part_elements(whole, first, first + 1), part_elements(whole, first + 1, second),
                       part_elements(whole, second, second + 1), part_elements(whole, second + 1, whole.size()));
  return fmt::format("extents_{}, {}, {}, {}", id(i), i.dim < i.to_dim ? 1 : 0,
                     table(i.table, source.type.shape[size_t(i.dim)]),
                     table(i.to_table, source.type.shape[size_t(i.to_dim)]));
}

int CollectiveText::id(const Instruction& instruction) const {
  const int number = made_by_.at(size_t(instruction.result));
  HETSYNTH_CHECK(number >= 0, "a collective of the program");
  return number;
}

}  // namespace hetsynth::codegen
