#include "dsl/ir/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "dsl/base/hash.h"
#include "dsl/ir/loops.h"

namespace hetsynth {

std::string_view name(NodeKind kind) {
  switch (kind) {
    case NodeKind::input:
      return "input";
    case NodeKind::parameter:
      return "parameter";
    case NodeKind::state:
      return "state";
    case NodeKind::operation:
      return "operation";
  }
  return "?";
}

std::string_view name(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::update:
      return "update";
  }
  return "?";
}

bool is_constant_data(const Node& node) {
  return node.kind == NodeKind::state && node.initializer.kind == Initializer::Kind::values;
}

int64_t global_sample(const Node& input, int64_t step, int64_t sample) {
  // An input without dimensions is one number for the whole step.
  const int64_t own = sample_count(input);
  const int64_t per_step = input.micro_batch.samples_per_step ? input.micro_batch.samples_per_step : own;
  return step * per_step + input.micro_batch.first_sample + sample;
}

int64_t sample_count(const Node& input) {
  if (input.type.shape.empty()) return 1;
  return input.micro_batch.turns > 1 ? input.type.shape[0] * input.type.shape[1] : input.type.shape[0];
}

Node as_one_batch(const Node& input) {
  Node out = input;
  if (input.micro_batch.turns <= 1) return out;
  out.type.shape.erase(out.type.shape.begin());
  out.type.shape[0] = sample_count(input);
  out.micro_batch.turns = 1;
  return out;
}

const std::string& data_name(const Node& input) {
  return input.micro_batch.of.empty() ? input.name : input.micro_batch.of;
}

std::string_view Node::name_of_kind() const { return hetsynth::name(kind); }

std::vector<std::vector<NodeId>> Program::consumers() const {
  std::vector<std::vector<NodeId>> out(nodes.size());
  for (const Node& node : nodes)
    for (NodeId input : node.inputs)
      if (out[input].empty() || out[input].back() != node.id) out[input].push_back(node.id);
  return out;
}

NodeId Program::next_of(NodeId id) const {
  if (nodes[id].loop < 0) return -1;
  for (const TurnLoop::Carry& c : loops[nodes[id].loop].carries)
    if (c.carry == id) return c.next;
  return -1;
}

int64_t Program::parameter_count() const {
  int64_t count = 0;
  for (const Node& node : nodes)
    if (node.kind == NodeKind::parameter) count += element_count(node.type.shape);
  return count;
}

namespace {

std::string leaf_text(const Node& node) {
  if (node.kind == NodeKind::input) {
    const DataSource& data = node.data;
    std::string out = fmt::format(" source={} length={} classes={}", int(data.kind), data.length, data.classes);
    if (data.column > 0) out += fmt::format(" column={}", data.column);
    if (data.lowest) out += fmt::format(" lowest={}", *data.lowest);
    if (data.highest) out += fmt::format(" highest={}", *data.highest);
    if (data.ignored) out += fmt::format(" ignored={}", *data.ignored);
    return out + (data.files ? " files" : "");
  }
  const Initializer& init = node.initializer;
  if (init.kind == Initializer::Kind::values)
    return " data=" +
           content_hash({reinterpret_cast<const char*>(init.values->data()), init.values->size() * sizeof(double)});
  static constexpr const char* kinds[] = {"constant", "normal", "uniform"};
  return fmt::format(" init={}({}){}", kinds[int(init.kind)], init.value,
                     init.drawn_as.empty() ? "" : " as " + init.drawn_as);
}

void append_node(const Program& program, const Node& node, bool with_place, std::string* out) {
  const auto append_name = [&](const Node& named) {
    out->append("%").append(fmt::format_int(named.id).c_str()).append(" ").append(named.name);
  };
  append_name(node);
  out->append(" = ").append(node.tag());
  if (node.leaf()) {
    out->append(leaf_text(node));
  } else {
    out->append("(");
    for (size_t j = 0; j < node.inputs.size(); ++j) {
      if (j > 0) out->append(", ");
      append_name(program[node.inputs[j]]);
    }
    out->append(")");
    if (std::string attributes = node.op->attributes(); !attributes.empty())
      out->append(" \"").append(attributes).append("\"");
    if (node.recomputation > 0) out->append(fmt::format(" again{}", node.recomputation));
  }
  out->append(" : ").append(text(node.type));
  if (with_place && node.where.known()) out->append(fmt::format("  # {}:{}", node.where.file, node.where.line));
  out->append("\n");
}

std::string program_text(const Program& program, bool with_place) {
  std::string out;
  Phase phase = Phase::forward;
  int loop = -1;
  auto close = [&] {
    if (loop < 0) return;
    for (const TurnLoop::Carry& c : program.loops[loop].carries) out += fmt::format("  %{} <- %{}\n", c.carry, c.next);
    out += "}\n";
  };
  for (const Node& node : program.nodes) {
    if (node.loop != loop) {
      close();
      loop = node.loop;
      if (loop >= 0) out += fmt::format("loop {} of {} turns {{\n", loop, program.loops[loop].turns);
    }
    if (node.phase != phase && !node.leaf()) out += fmt::format("// {}\n", name(phase = node.phase));
    if (loop >= 0) out += "  ";
    append_node(program, node, with_place, &out);
  }
  close();
  if (program.loss >= 0) out += fmt::format("loss %{}\n", program.loss);
  for (const Update& u : program.updates) out += fmt::format("update %{} <- %{}\n", u.target, u.value);
  for (const NamedOutput& o : program.outputs)
    out += fmt::format("{} {} %{}\n", o.metric ? "metric" : "output", o.name, o.node);
  return out;
}

/// Rebuilds a program from the marked nodes, giving `replacement` for merged ones.
Program rebuild(const Program& program, const std::vector<bool>& keep, const std::vector<NodeId>& replacement) {
  Program out;
  out.model_file = program.model_file;
  out.options = program.options;
  std::vector<NodeId> moved(program.nodes.size(), -1);
  std::vector<int> moved_loop(program.loops.size(), -1);
  for (NodeId id : execution_order(program)) {
    if (!keep[id] || replacement[id] != id) continue;
    Node copy = program[id];
    copy.id = moved[id] = int(out.nodes.size());
    for (NodeId& input : copy.inputs) input = moved[replacement[input]];
    if (copy.loop >= 0) {
      int& loop = moved_loop[copy.loop];
      if (loop < 0) {
        loop = int(out.loops.size());
        out.loops.push_back({program.loops[copy.loop].turns, {}, program.loops[copy.loop].of_samples});
      }
      copy.loop = loop;
    }
    out.nodes.push_back(std::move(copy));
  }
  for (const TurnLoop& loop : program.loops)
    for (const TurnLoop::Carry& c : loop.carries)
      if (keep[c.carry])
        out.loops[out[moved[c.carry]].loop].carries.push_back({moved[c.carry], moved[replacement[c.next]]});
  auto now = [&](NodeId id) { return moved[replacement[id]]; };
  if (program.loss >= 0 && keep[replacement[program.loss]]) out.loss = now(program.loss);
  for (const Update& u : program.updates)
    if (keep[u.target] && keep[replacement[u.value]]) out.updates.push_back({now(u.target), now(u.value)});
  for (const NamedOutput& o : program.outputs)
    if (keep[replacement[o.node]]) out.outputs.push_back({o.name, now(o.node), o.metric});
  return out;
}

/// Marks everything the roots need. Inputs precede uses, so one backward sweep is enough, but for what loops carry from
/// turn to turn.
std::vector<bool> needed_by(const Program& program, const std::vector<NodeId>& roots,
                            const std::vector<NodeId>& replacement) {
  std::vector<bool> keep(program.nodes.size(), false);
  for (NodeId root : roots) keep[replacement[root]] = true;
  for (bool complete = false; !complete;) {
    for (size_t i = program.nodes.size(); i-- > 0;)
      if (keep[i])
        for (NodeId input : program.nodes[i].inputs) keep[replacement[input]] = true;
    complete = true;
    for (const TurnLoop& loop : program.loops)
      for (const TurnLoop::Carry& c : loop.carries)
        if (keep[c.carry] && !keep[replacement[c.next]]) keep[replacement[c.next]] = true, complete = false;
  }
  return keep;
}

std::vector<NodeId> identity(const Program& program) {
  std::vector<NodeId> same(program.nodes.size());
  for (size_t i = 0; i < same.size(); ++i) same[i] = int(i);
  return same;
}

/// For every node the first one that computes the same.
std::vector<NodeId> merge_equal(const Program& program) {
  std::vector<NodeId> first = identity(program);
  std::map<std::string, NodeId> seen;
  std::set<NodeId> carried;
  for (const TurnLoop& loop : program.loops)
    for (const TurnLoop::Carry& c : loop.carries) carried.insert({c.carry, c.next});
  for (const Node& node : program.nodes) {
    // Carries that begin alike may go on differently, and each takes over a node of its own.
    if (node.leaf() || carried.count(node.id)) continue;
    std::string key = fmt::format("{}\"{}\"{}", node.tag(), node.op->attributes(), text(node.type));
    if (node.loop >= 0) key += fmt::format(" loop{}", node.loop);
    for (NodeId input : node.inputs) key += fmt::format(",{}", first[input]);
    if (node.recomputation > 0) key += fmt::format(" again{}", node.recomputation);
    first[node.id] = seen.emplace(std::move(key), node.id).first->second;
  }
  return first;
}

/// Dropout: noise that belongs to training.
bool draws_random(const Expr& e) {
  return e.kind() == ExprKind::random || std::any_of(e.args().begin(), e.args().end(), draws_random);
}

}  // namespace

std::string text(const Program& program) { return program_text(program, true); }

std::string hash_text(const Program& program) {
  std::string content = program_text(program, false);
  // Attributes name an operator's constants; the space and body it stands for are hashed too, so that a changed
  // operator is a changed model.
  for (const Node& node : program.nodes)
    if (!node.leaf()) content.append(text(node.space)).append(text(node.body)).append("\n");
  return content_hash(content);
}

Program simplify(const Program& program) {
  std::vector<NodeId> first = merge_equal(program);
  std::vector<NodeId> roots;
  if (program.loss >= 0) roots.push_back(program.loss);
  for (const Update& u : program.updates) roots.insert(roots.end(), {u.target, u.value});
  for (const NamedOutput& o : program.outputs) roots.push_back(o.node);
  return rebuild(program, needed_by(program, roots, first), first);
}

Program restrict_to_output(const Program& program, const std::string& output) {
  auto found = std::find_if(program.outputs.begin(), program.outputs.end(),
                            [&](const NamedOutput& o) { return o.name == output; });
  if (found == program.outputs.end())
    throw UserError({.where = {program.model_file},
                     .message = fmt::format("the model has no output named {}", output),
                     .mend = fmt::format("mark the tensor in the model: output(\"{}\", tensor)", output)});
  Program cut = program;
  cut.updates.clear();
  cut.loss = -1;
  cut.outputs = {*found};
  std::vector<NodeId> stand_in = identity(cut);
  for (const Node& node : cut.nodes)
    if (!node.leaf() && node.inputs.size() == 1 && draws_random(node.body))
      stand_in[node.id] = stand_in[node.inputs[0]];
  return rebuild(cut, needed_by(cut, {found->node}, stand_in), stand_in);
}

}  // namespace hetsynth
