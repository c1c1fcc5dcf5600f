// The decisions of a plan from JSON: every reference is resolved by name, every number bounded before it is used.
#include "dsl/spmd/plan_decisions.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <unordered_set>

#include "dsl/base/suggest.h"
#include "dsl/cluster/cluster.h"
#include "dsl/spmd/buckets.h"
#include "dsl/spmd/hosts.h"
#include "dsl/spmd/nested_cut.h"
#include "dsl/spmd/plan_text.h"

namespace hetsynth {

const std::string& label(const JsonReader& reader, size_t longest) {
  const std::string& text = reader.string();
  const bool plain =
      std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f || c == '\\'; });
  if (text.size() > longest || !plain)
    reader.fail("not a usable text", fmt::format("at most {} printable characters without backslash", longest),
                quote(text));
  return text;
}

/// A name that has to be one of a set.
int choice(const JsonReader& reader, std::string_view what, const std::vector<std::string>& names,
           const std::string& text) {
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == text) return int(i);
  reader.fail(fmt::format("unknown {} {}", what, quote(text)), "one of " + quoted_list(names, 16), "",
              did_you_mean(text, names));
}

namespace {

constexpr int64_t largest_extent = int64_t{1} << 40;

/// Reads the decisions; indices are found by name.
class DecisionReader {
 public:
  DecisionReader(const Program& reference, size_t devices)
      : reference_(reference), nodes_(reference), devices_(devices) {}

  SpmdProgram read(const JsonReader& decisions) {
    read_mesh(decisions.member("mesh"));
    if (decisions.has("hosts")) read_hosts(decisions.member("hosts"));
    for (const JsonReader& table : decisions.member("tables").elements()) read_table(table);
    for (const JsonReader& leaf : decisions.member("leaves").elements()) read_leaf(leaf);
    for (const JsonReader& instruction : decisions.member("instructions").elements()) read_instruction(instruction);
    read_finals(decisions.member("finals"));
    if (decisions.has("carried")) read_carried(decisions.member("carried"));
    if (size_t wanted = carry_count(); program_.carried.size() != wanted)
      decisions.fail("the plan does not say what the model's loops hand on from turn to turn",
                     fmt::format("\"carried\" with {} entries, one per carry", wanted),
                     fmt::format("{}", program_.carried.size()));
    if (decisions.has("schedules"))
      for (const JsonReader& schedule : decisions.member("schedules").elements()) read_schedule(schedule);
    read_loss(decisions.member("loss"));
    return std::move(program_);
  }

 private:
  void read_mesh(const JsonReader& mesh) {
    size_t ranks = 1;
    for (const JsonReader& axis : mesh.elements()) {
      axis.check_members({"axis", "size"});
      const std::string& name = label(axis.member("axis"));
      if (name.empty() || !axes_.emplace(name, int(axes_.size())).second)
        axis.fail(fmt::format("the name {} of the axis is empty or taken", quote(name)));
      const int size = int(axis.member("size").integer(1, max_cluster_devices));
      ranks *= size_t(size);
      if (ranks > size_t(max_cluster_devices))
        axis.fail("the mesh has too many ranks", fmt::format("at most {}", max_cluster_devices));
      program_.mesh.axes.push_back({name, size});
    }
    if (ranks != devices_)
      mesh.fail("the mesh does not fit the devices", fmt::format("{} ranks, one per entry of \"devices\"", devices_),
                fmt::format("{}", ranks));
  }

  void read_hosts(const JsonReader& list) {
    const auto hosts = list.elements();
    if (hosts.size() != devices_)
      list.fail("the list of hosts does not fit the devices",
                fmt::format("{} numbers, one per entry of \"devices\"", devices_), fmt::format("{}", hosts.size()));
    for (const JsonReader& host : hosts) {
      const int before = program_.hosts.empty() ? -1 : program_.hosts.back();
      const int number = int(host.integer(0, max_cluster_devices));
      if (number != before && number != before + 1)
        host.fail("hosts are numbered in the order of the ranks",
                  before < 0 ? "0" : fmt::format("{} or {}", before, before + 1), fmt::format("{}", number));
      program_.hosts.push_back(number);
    }
  }

  void read_table(const JsonReader& reader) {
    reader.check_members({"name", "axis", "extent", "bounds"}, {"by"});
    BoundaryTable table;
    table.name = label(reader.member("name"));
    if (table.name.empty() || !tables_.emplace(table.name, int(tables_.size())).second)
      reader.fail(fmt::format("the name {} of the table is empty or taken", quote(table.name)));
    table.axis = axis(reader.member("axis"));
    table.extent = reader.member("extent").integer(1, largest_extent);
    const JsonReader list = reader.member("bounds");
    if (reader.has("by"))
      read_rows(reader, list, table);
    else
      table.bounds = read_bounds(list, table);
    program_.tables.push_back(std::move(table));
  }

  /// Bounds of each group of the axis, by the group's coordinate on another one.
  void read_rows(const JsonReader& reader, const JsonReader& list, BoundaryTable& table) const {
    table.by = axis(reader.member("by"));
    if (table.by == table.axis)
      reader.member("by").fail("a table cannot differ along the axis that it cuts over", "another axis of the mesh");
    const auto rows = list.elements();
    const int groups = program_.mesh.axes[table.by].size;
    if (rows.size() != size_t(groups))
      list.fail("the table has the wrong number of rows",
                fmt::format("{}: one per device of axis {}", groups, quote(program_.mesh.axes[table.by].name)),
                fmt::format("{}", rows.size()));
    for (const JsonReader& row : rows) table.rows.push_back(read_row(row, table));
    if (nests(table)) {
      if (table.by > table.axis)
        reader.member("by").fail("a table can only divide parts of an axis before its own",
                                 fmt::format("an axis before {}", quote(program_.mesh.axes[table.axis].name)),
                                 quote(program_.mesh.axes[table.by].name));
      return;
    }
    const bool parts = std::any_of(table.rows.begin() + 1, table.rows.end(), [](auto& row) { return row.front() > 0; });
    for (size_t row = 0; row < rows.size(); ++row)
      if (parts)
        follows(rows[row], table, row);
      else
        covers(rows[row], table.rows[row], table);
  }

  /// Rows that divide the parts of another cut lie one behind the other, the last up to the extent.
  static void follows(const JsonReader& list, const BoundaryTable& table, size_t row) {
    const int64_t begin = row > 0 ? table.rows[row - 1].back() : 0, first = table.rows[row].front();
    if (first != begin)
      list.elements().front().fail("the row does not begin where the one before it ends",
                                   fmt::format("{}; or every row from 0 to {}", begin, table.extent),
                                   fmt::format("{}", first));
    if (row + 1 == table.rows.size()) last_bound(list, table.rows[row], table);
  }

  std::vector<int64_t> read_bounds(const JsonReader& list, const BoundaryTable& table) const {
    std::vector<int64_t> bounds = read_row(list, table);
    covers(list, bounds, table);
    return bounds;
  }

  /// Bounds that do not fall.
  std::vector<int64_t> read_row(const JsonReader& list, const BoundaryTable& table) const {
    const auto bounds = list.elements();
    const int size = program_.mesh.axes[table.axis].size;
    if (bounds.size() != size_t(size) + 1)
      list.fail("the table has the wrong number of bounds",
                fmt::format("{}: the size of the axis and one more", size + 1), fmt::format("{}", bounds.size()));
    std::vector<int64_t> out;
    for (const JsonReader& bound : bounds) {
      const int64_t value = bound.integer(0, table.extent);
      if (!out.empty() && value < out.back()) bound.fail("the bounds decrease", "", fmt::format("{}", value));
      out.push_back(value);
    }
    return out;
  }

  static void covers(const JsonReader& list, const std::vector<int64_t>& bounds, const BoundaryTable& table) {
    if (bounds.front() != 0)
      list.elements().front().fail("the first bound is not 0", "", fmt::format("{}", bounds.front()));
    last_bound(list, bounds, table);
  }

  static void last_bound(const JsonReader& list, const std::vector<int64_t>& bounds, const BoundaryTable& table) {
    if (bounds.back() != table.extent)
      list.fail("the table does not cover its extent", fmt::format("the last bound is {}", table.extent),
                fmt::format("{}", bounds.back()));
  }

  void read_leaf(const JsonReader& reader) {
    reader.check_members({"value", "node", "placement"});
    const NodeId id = node(reader.member("node"));
    const Node& leaf = reference_[id];
    if (!leaf.leaf()) reader.fail(fmt::format("{} is the result of an operator, not a leaf", quote(leaf.name)));
    if (leaf.kind != NodeKind::input && !bound_.insert(id).second)
      reader.fail(fmt::format("{} {} is bound twice", name(leaf.kind), quote(leaf.name)));
    program_.leaves.push_back(define(reader.member("value"), id, placements(reader.member("placement"), leaf)));
  }

  void read_instruction(const JsonReader& reader) {
    Instruction instruction;
    const JsonReader op = reader.member("op");
    instruction.opcode = Opcode(choice(op, "instruction", opcode_names(), op.string()));
    check_fields(reader, instruction.opcode);
    const JsonReader from = reader.member("from");
    for (const JsonReader& operand : from.elements()) instruction.operands.push_back(value(operand));
    NodeId of = -1;
    if (instruction.opcode == Opcode::compute) {
      read_compute(reader, instruction);
      of = instruction.node;
    } else {
      if (instruction.operands.size() != 1)
        from.fail("wrong number of operands", "1", fmt::format("{}", instruction.operands.size()));
      of = program_.values[instruction.operands[0]].node;
      read_collective(reader, instruction, reference_[of]);
    }
    if (reader.has("of")) of = node(reader.member("of"));
    if (reader.has("cause")) instruction.cause = label(reader.member("cause"));
    if (reader.has("bucket")) instruction.bucket = int(reader.member("bucket").integer(0, max_bucket));
    instruction.result = define(reader.member("result"), of, placements(reader.member("placement"), reference_[of]));
    program_.instructions.push_back(std::move(instruction));
    const int bucket = program_.instructions.back().bucket;
    const bool met = bucket >= 0 && !buckets_.insert(bucket).second;
    if (const std::string why = why_not_in_bucket(reference_, program_, met); !why.empty())
      reader.member("bucket").fail(why, "", "", "give it a number of its own, or leave \"bucket\" out");
  }

  void check_fields(const JsonReader& reader, Opcode opcode) const {
    std::vector<std::string> required{"op", "result", "from", "placement"};
    const OpcodeFields fields = fields_of(opcode);
    const auto need = [&](bool used, std::initializer_list<const char*> keys) {
      if (used) required.insert(required.end(), keys.begin(), keys.end());
    };
    need(opcode == Opcode::compute, {"node", "split"});
    need(fields.axis, {"axis"});
    need(fields.cut, {"dim", "table"});
    need(fields.to_cut, {"to_dim", "to_table"});
    need(fields.reduce, {"reduce"});
    need(fields.root, {"root"});
    need(fields.to, {"to"});
    need(fields.halo, {"before", "after"});
    std::vector<std::string> optional{"of", "cause"};
    if (fields.realisation) optional.emplace_back("realisation");
    if (communicates(opcode)) optional.emplace_back("bucket");
    reader.check_members(required, optional);
  }

  void read_compute(const JsonReader& reader, Instruction& instruction) const {
    instruction.node = node(reader.member("node"));
    const Node& node = reference_[instruction.node];
    if (node.leaf()) reader.fail(fmt::format("{} is a leaf: there is nothing to compute", quote(node.name)));
    if (instruction.operands.size() != node.inputs.size())
      reader.member("from").fail("wrong number of operands",
                                 fmt::format("{}, the inputs of {}", node.inputs.size(), quote(node.name)),
                                 fmt::format("{}", instruction.operands.size()));
    const JsonReader splits = reader.member("split");
    splits.check_members(axis_names());
    for (size_t a = 0; a < program_.mesh.axes.size(); ++a) {
      const JsonReader text = splits.member(program_.mesh.axes[a].name);
      instruction.splits.push_back(read_split(text, node, int(a)));
    }
    if (const std::string why = why_not_divided(program_, node.space.factors, instruction.splits); !why.empty())
      splits.fail(why);
  }

  Split read_split(const JsonReader& reader, const Node& node, int axis) const {
    const std::string& text = reader.string();
    const std::optional<Call> call = parse_call(text);
    if (call && call->word == "whole" && call->arguments.empty()) return {};
    if (call && call->word == "stage" && call->arguments.size() == 1)
      return Split::on_stage(stage(reader, call->arguments[0], axis));
    if (!call || call->word != "split" || call->arguments.size() != 2)
      reader.fail("not a split", "\"whole\", \"split(factor, table)\" or \"stage(number)\"", quote(text));
    const std::optional<int> factor = find_factor(node.space, call->arguments[0]);
    if (!factor) {
      std::vector<std::string> names;
      for (int f = 0; f < int(node.space.factors.size()); ++f) names.push_back(factor_text(node.space, f));
      reader.fail(fmt::format("{} has no factor {}", quote(node.name), quote(call->arguments[0])),
                  "one of " + quoted_list(names, 16));
    }
    const int table = find_table(reader, call->arguments[1]);
    check_cut(reader, table, axis, node.space.factors[*factor].size, fmt::format("factor {}", call->arguments[0]));
    return {*factor, table};
  }

  void read_collective(const JsonReader& reader, Instruction& instruction, const Node& operand) const {
    const OpcodeFields fields = fields_of(instruction.opcode);
    instruction.axis = axis(reader.member("axis"));
    if (fields.cut) read_cut(reader, "dim", "table", operand, instruction.axis, &instruction.dim, &instruction.table);
    if (fields.to_cut)
      read_cut(reader, "to_dim", "to_table", operand, instruction.axis, &instruction.to_dim, &instruction.to_table);
    if (fields.to_cut && instruction.dim == instruction.to_dim)
      reader.member("to_dim").fail("the tensor is to be cut in the dimension that it is cut in", "another dimension",
                                   fmt::format("{}", instruction.to_dim), "leave the instruction out");
    if (fields.reduce)
      instruction.reduce =
          ReduceOp(choice(reader.member("reduce"), "reduction", reduce_names(), reader.member("reduce").string()));
    const int last = program_.mesh.axes[instruction.axis].size - 1;
    if (fields.root) instruction.root = int(reader.member("root").integer(0, last));
    if (fields.to) instruction.to = int(reader.member("to").integer(0, last));
    if (fields.halo) {
      const int64_t extent = operand.type.shape[size_t(instruction.dim)];
      instruction.before = reader.member("before").integer(0, extent);
      instruction.after = reader.member("after").integer(0, extent);
      if (instruction.before + instruction.after == 0)
        reader.fail("the exchange brings nothing", "\"before\" or \"after\" above 0", "both 0",
                    "leave the instruction out");
    }
    if (reader.has("realisation")) {
      const JsonReader text = reader.member("realisation");
      instruction.realisation = Realisation(choice(text, "realisation", realisation_names(), text.string()));
      const std::string why =
          instruction.realisation == Realisation::hierarchical ? why_not_hierarchical(program_, instruction) : "";
      if (!why.empty())
        text.fail(why, program_.hosts.empty() ? "\"hosts\" beside \"mesh\": by rank, the number of its host" : "", "",
                  "choose another realisation; what the collective computes stays the same");
    }
  }

  void read_cut(const JsonReader& reader, const char* dim_key, const char* table_key, const Node& node, int axis,
                int* dim, int* table) const {
    *dim = dimension(reader.member(dim_key), node);
    *table = find_table(reader.member(table_key), reader.member(table_key).string());
    check_cut(reader.member(table_key), *table, axis, node.type.shape[*dim], fmt::format("dimension {}", *dim));
  }

  int dimension(const JsonReader& reader, const Node& node) const {
    const int64_t rank = int64_t(node.type.shape.size());
    if (rank == 0) reader.fail(fmt::format("{} is a scalar and has no dimension to cut", quote(node.name)));
    return int(reader.integer(0, rank - 1));
  }

  /// The table belongs to the axis and divides what it cuts.
  void check_cut(const JsonReader& reader, int index, int axis, int64_t extent, const std::string& what) const {
    const BoundaryTable& table = program_.tables[index];
    if (table.axis != axis)
      reader.fail(fmt::format("table {} cuts another axis", quote(table.name)), quote(program_.mesh.axes[axis].name),
                  quote(program_.mesh.axes[table.axis].name));
    if (extent % table.extent != 0)
      reader.fail(fmt::format("table {} does not fit {}", quote(table.name), what),
                  fmt::format("an extent that divides {}", extent), fmt::format("{}", table.extent));
  }

  Placements placements(const JsonReader& reader, const Node& node) const {
    reader.check_members(axis_names());
    Placements result;
    for (size_t a = 0; a < program_.mesh.axes.size(); ++a)
      result.push_back(placement(reader.member(program_.mesh.axes[a].name), node, int(a)));
    if (const std::string why = why_not_held(program_, result); !why.empty()) reader.fail(why);
    return result;
  }

  /// A coordinate of the axis.
  int stage(const JsonReader& reader, const std::string& number, int axis) const {
    const Mesh::Axis& along = program_.mesh.axes[axis];
    int at = -1;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), at);
    if (error != std::errc() || end != number.data() + number.size() || at < 0 || at >= along.size)
      reader.fail(fmt::format("axis {} has no stage {}", quote(along.name), quote(number)),
                  fmt::format("a number from 0 to {}", along.size - 1));
    return at;
  }

  Placement placement(const JsonReader& reader, const Node& node, int axis) const {
    const std::string& text = reader.string();
    const std::optional<Call> call = parse_call(text);
    if (call && call->word == "replicated" && call->arguments.empty()) return Placement::replicated();
    if (call && call->word == "partial" && call->arguments.size() == 1)
      return Placement::partial(ReduceOp(choice(reader, "reduction", reduce_names(), call->arguments[0])));
    if (call && call->word == "stage" && call->arguments.size() == 1)
      return Placement::stage(stage(reader, call->arguments[0], axis));
    const bool overlaps = call && call->word == "overlapping" && call->arguments.size() == 2;
    if (!overlaps && (!call || call->word != "sharded" || call->arguments.size() != 2))
      reader.fail("not a placement",
                  "\"replicated\", \"sharded(dimension, table)\", \"overlapping(dimension, before, after, table)\", "
                  "\"partial(sum)\" or \"stage(number)\"",
                  quote(text));
    const std::string& number = call->arguments[0];
    const int rank = int(node.type.shape.size());
    int dim = 0;
    while (dim < rank && fmt::format("{}", dim) != number) ++dim;
    if (dim == rank)
      reader.fail(fmt::format("{} has no dimension {}", quote(node.name), quote(number)),
                  fmt::format("a dimension of {}", hetsynth::text(node.type)));
    std::string name = call->arguments[1];
    Placement out = Placement::sharded(dim, -1);
    if (overlaps) {
      out.before = elements(reader, &name, node.type.shape[size_t(dim)]);
      out.after = elements(reader, &name, node.type.shape[size_t(dim)]);
      if (!out.overlaps())
        reader.fail("parts without a halo do not overlap", "\"sharded(dimension, table)\"", quote(text));
    }
    out.table = find_table(reader, name);
    check_cut(reader, out.table, axis, node.type.shape[dim], fmt::format("dimension {} of {}", dim, quote(node.name)));
    return out;
  }

  /// Takes a number of elements and the comma behind it off the text.
  static int64_t elements(const JsonReader& reader, std::string* text, int64_t most) {
    const size_t comma = text->find(", ");
    const std::string number = text->substr(0, comma);
    int64_t out = -1;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), out);
    if (comma == std::string::npos || error != std::errc() || end != number.data() + number.size() || out < 0 ||
        out > most)
      reader.fail("not a number of elements that parts overlap by", fmt::format("a number from 0 to {}", most),
                  quote(number));
    text->erase(0, comma + 2);
    return out;
  }

  void read_finals(const JsonReader& reader) {
    std::set<NodeId> open;
    for (const Update& update : reference_.updates) open.insert(update.target);
    for (const JsonReader& entry : reader.elements()) {
      entry.check_members({"target", "value"});
      const NodeId target = node(entry.member("target"));
      if (!open.erase(target))
        entry.fail(fmt::format("{} is not updated by the step, or stands twice", quote(nodes_.name(target))));
      program_.finals.emplace_back(target, value(entry.member("value")));
    }
    if (!open.empty())
      reader.fail(fmt::format("the new contents of {} are missing", quote(nodes_.name(*open.begin()))));
  }

  size_t carry_count() const {
    size_t count = 0;
    for (const TurnLoop& loop : reference_.loops) count += loop.carries.size();
    return count;
  }

  void read_carried(const JsonReader& reader) {
    std::set<NodeId> given;
    for (const JsonReader& entry : reader.elements()) {
      entry.check_members({"carry", "value"});
      const NodeId carry = node(entry.member("carry"));
      if (reference_.next_of(carry) < 0 || !given.insert(carry).second)
        entry.fail(fmt::format("{} is carried by no loop, or stands twice", quote(nodes_.name(carry))));
      program_.carried.emplace_back(carry, value(entry.member("value")));
    }
  }

  /// Whether the order is one that data allow is the verifier's to say.
  void read_schedule(const JsonReader& reader) {
    reader.check_members({"loop", "parts", "order"});
    if (reference_.loops.empty()) reader.fail("the model has no loop that could have a schedule");
    LoopSchedule schedule;
    schedule.loop = int(reader.member("loop").integer(0, int64_t(reference_.loops.size()) - 1));
    const int64_t turns = reference_.loops[size_t(schedule.loop)].turns;
    for (const JsonReader& count : reader.member("parts").elements())
      schedule.parts.push_back(int(count.integer(1, int64_t(program_.instructions.size()))));
    for (const JsonReader& run : reader.member("order").elements()) {
      const auto pair = run.elements();
      if (pair.size() != 2) run.fail("not a part and a turn", "[part, turn]");
      schedule.order.push_back(
          {int(pair[0].integer(0, int64_t(schedule.parts.size()) - 1)), pair[1].integer(0, turns - 1)});
    }
    program_.schedules.push_back(std::move(schedule));
  }

  void read_loss(const JsonReader& reader) {
    if (reader.is_null() && reference_.loss < 0) return;
    program_.loss = value(reader);
  }

  std::vector<std::string> axis_names() const {
    std::vector<std::string> names;
    for (const Mesh::Axis& axis : program_.mesh.axes) names.push_back(axis.name);
    return names;
  }

  int axis(const JsonReader& reader) const { return choice(reader, "mesh axis", axis_names(), reader.string()); }

  int find_table(const JsonReader& reader, const std::string& name) const {
    const auto found = tables_.find(name);
    if (found != tables_.end()) return found->second;
    std::vector<std::string> names;
    for (const BoundaryTable& table : program_.tables) names.push_back(table.name);
    reader.fail(fmt::format("unknown table {}", quote(name)), "", "", did_you_mean(name, names));
  }

  NodeId node(const JsonReader& reader) const {
    const std::optional<NodeId> id = nodes_.find(reader.string());
    if (!id)
      reader.fail(fmt::format("the model has no tensor {}", quote(reader.string())), "", "",
                  did_you_mean(reader.string(), nodes_.all()));
    return *id;
  }

  ValueId value(const JsonReader& reader) const {
    const auto found = values_.find(reader.string());
    if (found != values_.end()) return found->second;
    std::vector<std::string> names;
    for (const Value& value : program_.values) names.push_back(value.name);
    reader.fail(fmt::format("the value {} is not defined before it is used", quote(reader.string())), "", "",
                did_you_mean(reader.string(), names));
  }

  ValueId define(const JsonReader& reader, NodeId node, Placements placements) {
    const ValueId id = ValueId(program_.values.size());
    const std::string& name = label(reader);
    if (name.empty()) reader.fail("a value needs a name");
    if (!values_.emplace(name, id).second) reader.fail(fmt::format("the value {} is defined twice", quote(name)));
    program_.values.push_back({name, node, std::move(placements)});
    return id;
  }

  const Program& reference_;
  NodeNames nodes_;
  size_t devices_;
  std::unordered_set<int> buckets_;  ///< met so far
  SpmdProgram program_;
  std::map<std::string, int> axes_, tables_;
  std::map<std::string, ValueId> values_;
  std::set<NodeId> bound_;
};

}  // namespace

SpmdProgram read_decisions(const JsonReader& decisions, const Program& reference, size_t devices) {
  return DecisionReader(reference, devices).read(decisions);
}

}  // namespace hetsynth
