#include "tests/support/plan_builder.h"

#include <algorithm>

#include "tests/support/named_operator.h"

namespace hetsynth::test {

namespace {

std::vector<std::string> split_spec(const std::string& spec) {
  std::vector<std::string> parts(1);
  size_t arrow = spec.find("->");
  for (char c : spec.substr(0, arrow))
    if (c == ',')
      parts.emplace_back();
    else
      parts.back() += c;
  parts.push_back(spec.substr(arrow + 2));
  return parts;
}

}  // namespace

NodeId ProgramBuilder::add(Node node) {
  node.id = NodeId(program.nodes.size());
  node.where = {"model.cpp", node.id + 1, 1};
  ids_[node.name] = node.id;
  program.nodes.push_back(std::move(node));
  return NodeId(program.nodes.size()) - 1;
}

NodeId ProgramBuilder::leaf(const std::string& name, NodeKind kind, Shape shape, DType dtype) {
  Node node;
  node.kind = kind;
  node.name = name;
  node.type = {std::move(shape), dtype};
  return add(std::move(node));
}

NodeId ProgramBuilder::custom(const std::string& name, const std::vector<std::string>& inputs, Space space, Expr body,
                              Shape shape) {
  Node node;
  node.name = name;
  node.op = std::make_shared<testing::NamedOperator>("written");
  for (const std::string& input : inputs) node.inputs.push_back(id(input));
  node.space = std::move(space);
  node.body = std::move(body);
  node.type.shape = std::move(shape);
  return add(std::move(node));
}

NodeId ProgramBuilder::general(const std::string& name, const std::string& spec, const std::vector<std::string>& inputs,
                               Expr body, FactorKind reduction, const std::map<char, int64_t>& extents) {
  std::vector<std::string> letters = split_spec(spec);
  std::string out = letters.back(), order = out;
  std::map<char, int64_t> extent = extents;
  for (size_t j = 0; j < inputs.size(); ++j)
    for (size_t d = 0; d < letters[j].size(); ++d) {
      extent[letters[j][d]] = program[id(inputs[j])].type.shape[d];
      if (order.find(letters[j][d]) == std::string::npos) order += letters[j][d];
    }
  for (auto [letter, size] : extents)
    if (order.find(letter) == std::string::npos) order += letter;
  Space space;
  for (char c : order)
    space.add_factor(std::string(1, c), extent[c], out.find(c) != std::string::npos ? FactorKind::parallel : reduction);
  auto access = [&](const std::string& of) {
    Access a;
    for (char c : of) a.dims.push_back(index_by(int(order.find(c))));
    return a;
  };
  for (size_t j = 0; j < inputs.size(); ++j) space.inputs.push_back(access(letters[j]));
  space.output = access(out);
  Shape shape;
  for (char c : out) shape.push_back(extent[c]);
  return custom(name, inputs, space, std::move(body), shape);
}

NodeId ProgramBuilder::einsum(const std::string& name, const std::string& spec, const std::string& a,
                              const std::string& b) {
  return general(name, spec, {a, b}, Expr::input(0) * Expr::input(1));
}

void ProgramBuilder::update(const std::string& target, const std::string& value) {
  program.updates.push_back({id(target), id(value)});
}

Program two_layers(int64_t B, int64_t K, int64_t H, int64_t N) {
  ProgramBuilder p;
  Expr a = Expr::input(0), b = Expr::input(1);
  p.leaf("x", NodeKind::input, {B, K});
  p.leaf("y", NodeKind::input, {B, N});
  p.leaf("w1", NodeKind::parameter, {K, H});
  p.leaf("w2", NodeKind::parameter, {H, N});
  p.leaf("m1", NodeKind::state, {K, H});
  p.einsum("h", "bk,kh->bh", "x", "w1");
  p.general("a", "bh->bh", {"h"}, select(less(0.0, a), a, 0.0));
  p.einsum("o", "bh,hn->bn", "a", "w2");
  p.general("d", "bn,bn->bn", {"o", "y"}, a - b);
  p.program.loss = p.general("loss", "bn->", {"d"}, a * a * (1.0 / double(B)));
  p.general("d_o", "bn->bn", {"d"}, a * (2.0 / double(B)));
  p.einsum("d_w2", "bh,bn->hn", "a", "d_o");
  p.einsum("d_a", "bn,hn->bh", "d_o", "w2");
  p.general("d_h", "bh,bh->bh", {"h", "d_a"}, select(less(0.0, a), b, 0.0));
  p.einsum("d_w1", "bk,bh->kh", "x", "d_h");
  p.general("m1_new", "kh,kh->kh", {"m1", "d_w1"}, 0.9 * a + b);
  p.general("w1_new", "kh,kh->kh", {"w1", "m1_new"}, a - 0.1 * b);
  p.general("w2_new", "hn,hn->hn", {"w2", "d_w2"}, a - 0.1 * b);
  p.update("w1", "w1_new");
  p.update("w2", "w2_new");
  p.update("m1", "m1_new");
  return p.program;
}

Program softmax_layer(bool loss_reads_maximum, int64_t B, int64_t K, int64_t N) {
  ProgramBuilder p;
  Expr a = Expr::input(0), b = Expr::input(1);
  p.leaf("x", NodeKind::input, {B, K});
  p.leaf("w", NodeKind::parameter, {K, N});
  p.einsum("o", "bk,kn->bn", "x", "w");
  p.general("mx", "bn->b", {"o"}, a, FactorKind::max);
  p.general("e", "bn,b->bn", {"o", "mx"}, exp(a - b));
  p.general("s", "bn->b", {"e"}, a);
  p.general("p", "bn,b->bn", {"e", "s"}, a / b);
  p.program.loss = loss_reads_maximum ? p.general("loss", "bn,b->", {"p", "mx"}, a * a * b)
                                      : p.general("loss", "bn->", {"p"}, a * a);
  p.einsum("d_w", "bk,bn->kn", "x", "p");
  p.general("w_new", "kn,kn->kn", {"w", "d_w"}, a - 0.1 * b);
  p.update("w", "w_new");
  return p.program;
}

PlanBuilder::PlanBuilder(const Program& reference, std::vector<Mesh::Axis> axes) : reference(reference) {
  plan.mesh.axes = std::move(axes);
}

NodeId PlanBuilder::node(const std::string& name) const {
  auto found =
      std::find_if(reference.nodes.begin(), reference.nodes.end(), [&](const Node& n) { return n.name == name; });
  if (found == reference.nodes.end()) throw InternalError("no node " + name);
  return found->id;
}

int PlanBuilder::table(const std::string& name, int axis, int64_t extent, std::vector<int64_t> bounds) {
  plan.tables.push_back({name, axis, extent, std::move(bounds)});
  return int(plan.tables.size()) - 1;
}

int PlanBuilder::table(const std::string& name, int axis, int64_t extent, int by,
                       std::vector<std::vector<int64_t>> rows) {
  plan.tables.push_back({name, axis, extent, {}, by, std::move(rows)});
  return int(plan.tables.size()) - 1;
}

ValueId PlanBuilder::value(NodeId node, Placements placements) {
  placements.resize(plan.mesh.axes.size());
  std::string name =
      reference[node].name + "@" + text(plan.mesh, placements) + "#" + std::to_string(plan.values.size());
  plan.values.push_back({name, node, placements});
  return ValueId(plan.values.size()) - 1;
}

ValueId PlanBuilder::leaf(const std::string& name, Placements placements) {
  return leaf(node(name), std::move(placements));
}

ValueId PlanBuilder::leaf(NodeId node, Placements placements) {
  plan.leaves.push_back(value(node, std::move(placements)));
  return plan.leaves.back();
}

ValueId PlanBuilder::compute(const std::string& name, std::vector<ValueId> operands,
                             std::vector<std::pair<std::string, int>> splits) {
  const NodeId id = node(name);
  std::vector<Split> by_number(plan.mesh.axes.size());
  const std::vector<Factor>& factors = reference[id].space.factors;
  for (size_t a = 0; a < splits.size(); ++a) {
    if (splits[a].first.empty()) continue;
    for (size_t f = 0; f < factors.size(); ++f)
      if (factors[f].name == splits[a].first) by_number[a] = {int(f), splits[a].second};
  }
  return compute(id, std::move(operands), std::move(by_number));
}

ValueId PlanBuilder::compute(NodeId node, std::vector<ValueId> operands, std::vector<Split> splits) {
  Instruction i;
  i.opcode = Opcode::compute;
  i.node = node;
  i.operands = std::move(operands);
  i.splits = std::move(splits);
  std::string reason;
  std::optional<Placements> claim = infer_placements(plan, reference, i, &reason);
  i.result = value(i.node, claim.value_or(Placements()));
  plan.instructions.push_back(i);
  return i.result;
}

ValueId PlanBuilder::movement(Opcode opcode, ValueId from, int axis, Placement to, Instruction i) {
  i.opcode = opcode;
  i.operands = {from};
  i.axis = axis;
  Placements placements = plan.values[from].placements;
  placements[axis] = to;
  i.result = value(plan.values[from].node, placements);
  plan.instructions.push_back(i);
  return i.result;
}

ValueId PlanBuilder::slice(ValueId from, int axis, int dim, int table) {
  Instruction i;
  i.dim = dim, i.table = table;
  return movement(Opcode::slice, from, axis, Placement::sharded(dim, table), i);
}

ValueId PlanBuilder::to_partial(ValueId from, int axis, int root) {
  Instruction i;
  i.root = root;
  return movement(Opcode::to_partial, from, axis, Placement::partial(ReduceOp::sum), i);
}

ValueId PlanBuilder::all_gather(ValueId from, int axis) {
  Instruction i;
  i.dim = plan.values[from].placements[axis].dim;
  i.table = plan.values[from].placements[axis].table;
  return movement(Opcode::all_gather, from, axis, Placement::replicated(), i);
}

ValueId PlanBuilder::all_reduce(ValueId from, int axis, ReduceOp reduce) {
  Instruction i;
  i.reduce = reduce;
  return movement(Opcode::all_reduce, from, axis, Placement::replicated(), i);
}

ValueId PlanBuilder::reduce_scatter(ValueId from, int axis, int dim, int table, ReduceOp reduce) {
  Instruction i;
  i.dim = dim, i.table = table, i.reduce = reduce;
  return movement(Opcode::reduce_scatter, from, axis, Placement::sharded(dim, table), i);
}

ValueId PlanBuilder::all_to_all(ValueId from, int axis, int to_dim, int to_table) {
  Instruction i;
  i.dim = plan.values[from].placements[axis].dim;
  i.table = plan.values[from].placements[axis].table;
  i.to_dim = to_dim, i.to_table = to_table;
  return movement(Opcode::all_to_all, from, axis, Placement::sharded(to_dim, to_table), i);
}

ValueId PlanBuilder::broadcast(ValueId from, int axis, int root) {
  Instruction i;
  i.root = root;
  return movement(Opcode::broadcast, from, axis, Placement::replicated(), i);
}

ValueId PlanBuilder::halo_exchange(ValueId from, int axis, int64_t before, int64_t after) {
  const Placement cut = plan.values[from].placements[axis];
  Instruction i;
  i.dim = cut.dim, i.table = cut.table, i.before = before, i.after = after;
  return movement(Opcode::halo_exchange, from, axis, Placement::overlapping(cut.dim, cut.table, before, after), i);
}

ValueId PlanBuilder::send(ValueId from, int axis, int to) {
  Instruction i;
  i.root = plan.values[from].placements[axis].at;
  i.to = to;
  return movement(Opcode::send, from, axis, Placement::stage(to), i);
}

ValueId PlanBuilder::moved(ValueId from, const Placements& wanted, const std::function<bool(int)>& scatters) {
  const int axes = int(plan.mesh.axes.size());
  auto free = [&](int dim) {
    for (const Placement& p : plan.values[size_t(from)].placements)
      if (p.kind == Placement::Kind::sharded && p.dim == dim) return false;
    return true;
  };
  // First all axes become replicated or stay; then the cuts come, so that no dimension is cut twice on the way.
  for (int a = 0; a < axes; ++a) {
    const Placement now = plan.values[size_t(from)].placements[size_t(a)], to = wanted[size_t(a)];
    if (now == to) continue;
    if (now.kind == Placement::Kind::sharded) from = all_gather(from, a);
    if (now.kind == Placement::Kind::partial) {
      const bool scatter = to.kind == Placement::Kind::sharded && free(to.dim) && scatters && scatters(a);
      from = scatter ? reduce_scatter(from, a, to.dim, to.table, now.reduce) : all_reduce(from, a, now.reduce);
    }
  }
  for (int a = 0; a < axes; ++a) {
    const Placement now = plan.values[size_t(from)].placements[size_t(a)], to = wanted[size_t(a)];
    if (now != to) from = slice(from, a, to.dim, to.table);
  }
  return from;
}

void PlanBuilder::final(const std::string& target, ValueId value) { plan.finals.push_back({node(target), value}); }

SpmdProgram data_parallel(const Program& reference, std::vector<int64_t> bounds) {
  PlanBuilder b(reference, {{"dp", int(bounds.size()) - 1}});
  int t = b.table("batch", 0, bounds.back(), bounds);
  Placement cut = Placement::sharded(0, t);
  ValueId x = b.leaf("x", {cut}), y = b.leaf("y", {cut}), w1 = b.leaf("w1"), w2 = b.leaf("w2"), m1 = b.leaf("m1");
  ValueId h = b.compute("h", {x, w1}, {{"b", t}}), a = b.compute("a", {h}, {{"b", t}});
  ValueId o = b.compute("o", {a, w2}, {{"b", t}}), d = b.compute("d", {o, y}, {{"b", t}});
  b.plan.loss = b.all_reduce(b.compute("loss", {d}, {{"b", t}}), 0);
  ValueId d_o = b.compute("d_o", {d}, {{"b", t}});
  ValueId d_w2 = b.all_reduce(b.compute("d_w2", {a, d_o}, {{"b", t}}), 0);
  ValueId d_a = b.compute("d_a", {d_o, w2}, {{"b", t}}), d_h = b.compute("d_h", {h, d_a}, {{"b", t}});
  ValueId d_w1 = b.all_reduce(b.compute("d_w1", {x, d_h}, {{"b", t}}), 0);
  ValueId m1_new = b.compute("m1_new", {m1, d_w1});
  b.final("w1", b.compute("w1_new", {w1, m1_new}));
  b.final("w2", b.compute("w2_new", {w2, d_w2}));
  b.final("m1", m1_new);
  return b.plan;
}

SpmdProgram tensor_parallel(const Program& reference, std::vector<int64_t> bounds) {
  PlanBuilder b(reference, {{"tp", int(bounds.size()) - 1}});
  int t = b.table("hidden", 0, bounds.back(), bounds);
  Placement columns = Placement::sharded(1, t), rows = Placement::sharded(0, t);
  ValueId x = b.leaf("x"), y = b.leaf("y"), w1 = b.leaf("w1", {columns}), w2 = b.leaf("w2", {rows});
  ValueId m1 = b.leaf("m1", {columns});
  ValueId h = b.compute("h", {x, w1}, {{"h", t}}), a = b.compute("a", {h}, {{"h", t}});
  ValueId o = b.all_reduce(b.compute("o", {a, w2}, {{"h", t}}), 0);
  ValueId d = b.compute("d", {o, y});
  b.plan.loss = b.compute("loss", {d});
  ValueId d_o = b.compute("d_o", {d}), d_w2 = b.compute("d_w2", {a, d_o}, {{"h", t}});
  ValueId d_a = b.compute("d_a", {d_o, w2}, {{"h", t}}), d_h = b.compute("d_h", {h, d_a}, {{"h", t}});
  ValueId d_w1 = b.compute("d_w1", {x, d_h}, {{"h", t}});
  ValueId m1_new = b.compute("m1_new", {m1, d_w1}, {{"h", t}});
  b.final("w1", b.compute("w1_new", {w1, m1_new}, {{"h", t}}));
  b.final("w2", b.compute("w2_new", {w2, d_w2}, {{"h", t}}));
  b.final("m1", m1_new);
  return b.plan;
}

int find(const SpmdProgram& plan, const Program& reference, Opcode opcode, const std::string& node) {
  for (size_t i = 0; i < plan.instructions.size(); ++i)
    if (plan.instructions[i].opcode == opcode && reference[plan.values[plan.instructions[i].result].node].name == node)
      return int(i);
  return -1;
}

void drop(SpmdProgram& plan, int instruction) {
  ValueId gone = plan.instructions.at(size_t(instruction)).result;
  ValueId stays = plan.instructions[instruction].operands.at(0);
  plan.instructions.erase(plan.instructions.begin() + instruction);
  auto replace = [&](ValueId& v) {
    if (v == gone) v = stays;
  };
  for (Instruction& i : plan.instructions)
    for (ValueId& v : i.operands) replace(v);
  for (auto& [target, v] : plan.finals) replace(v);
  replace(plan.loss);
}

}  // namespace hetsynth::test
