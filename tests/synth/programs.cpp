#include "programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dsl/base/error.h"

namespace hetsynth::testing_support {
namespace {

/// Only carries the subscripts into texts and hashes.
class NamedOperator : public Operator {
 public:
  explicit NamedOperator(std::string attributes) : attributes_(std::move(attributes)) {}
  std::string_view tag() const override { return "test"; }
  std::string attributes() const override { return attributes_; }
  TensorType infer(std::span<const TensorType>) const override { throw InternalError("built by hand"); }
  Space space(std::span<const TensorType>, const TensorType&) const override { throw InternalError("built by hand"); }
  Expr body(std::span<const TensorType>, const TensorType&) const override { throw InternalError("built by hand"); }
  std::vector<Tensor> vjp(const VjpArguments&) const override { return {}; }

 private:
  std::string attributes_;
};

}  // namespace

NodeId ProgramBuilder::leaf(NodeKind kind, const std::string& name, Shape shape, DType dtype) {
  Node node;
  node.id = int(program.nodes.size());
  node.kind = kind;
  node.name = name;
  node.type = {std::move(shape), dtype};
  program.nodes.push_back(node);
  return node.id;
}

NodeId ProgramBuilder::input(const std::string& name, Shape shape, DType dtype) {
  return leaf(NodeKind::input, name, std::move(shape), dtype);
}
NodeId ProgramBuilder::parameter(const std::string& name, Shape shape) {
  return leaf(NodeKind::parameter, name, std::move(shape), DType::f32);
}
NodeId ProgramBuilder::state(const std::string& name, Shape shape) {
  return leaf(NodeKind::state, name, std::move(shape), DType::f32);
}

NodeId ProgramBuilder::op(const std::string& name, const std::string& subscripts, std::vector<NodeId> inputs,
                          FactorKind reduce) {
  Expr body = Expr::input(0);
  for (size_t j = 1; j < inputs.size(); ++j) body = body * Expr::input(int(j));
  return op(name, subscripts, std::move(inputs), body, reduce);
}

NodeId ProgramBuilder::op(const std::string& name, const std::string& subscripts, std::vector<NodeId> inputs, Expr body,
                          FactorKind reduce, const std::string& sizes) {
  Node node;
  node.id = int(program.nodes.size());
  node.name = name;
  node.phase = phase_;
  node.op = std::make_shared<NamedOperator>(subscripts + text(body));
  node.inputs = std::move(inputs);
  node.body = body;
  size_t arrow = subscripts.find("->");
  std::string result = subscripts.substr(arrow + 2), arguments = subscripts.substr(0, arrow) + ",";
  std::map<char, int> factors;
  auto factor = [&](char letter, int64_t extent) {
    auto [it, fresh] = factors.try_emplace(letter, 0);
    bool in_result = result.find(letter) != std::string::npos;
    if (fresh)
      it->second = node.space.add_factor(std::string(1, letter), extent, in_result ? FactorKind::parallel : reduce);
    HETSYNTH_CHECK(node.space.factors[it->second].size == extent, "sizes differ in " + name);
    return it->second;
  };
  size_t at = 0;
  for (NodeId input : node.inputs) {
    Access access;
    for (int64_t extent : program[input].type.shape)
      access.dims.push_back(index_by(factor(arguments.at(at++), extent)));
    HETSYNTH_CHECK(arguments.at(at++) == ',', "subscripts do not fit operands of " + name);
    node.space.inputs.push_back(access);
  }
  for (char letter : sizes) factor(letter, sizes_.at(letter));
  for (char letter : result) {
    int f = factors.count(letter) ? factors.at(letter) : factor(letter, sizes_.at(letter));
    node.type.shape.push_back(node.space.factors[f].size);
    node.space.output.dims.push_back(index_by(f));
  }
  program.nodes.push_back(node);
  return node.id;
}

NodeId ProgramBuilder::windows(const std::string& name, NodeId a, int64_t stride, int64_t before) {
  const Shape shape = program[a].type.shape;
  Node node;
  const int y = node.space.add_factor("y", shape[0] / stride, FactorKind::parallel),
            b = node.space.add_factor("b", shape[1], FactorKind::parallel),
            k = node.space.add_factor("k", 3, FactorKind::sum);
  const DimIndex row{{IndexTerm{.factor = y, .stride = stride}, IndexTerm{k}}, -before};
  node.space.inputs = {{{row, index_by(b)}, true}};
  node.space.output = {{index_by(y), index_by(b)}};
  return append(std::move(node), name, fmt::format("windows {} {}", stride, before), {a}, Expr::input(0),
                {shape[0] / stride, shape[1]});
}

NodeId ProgramBuilder::window_products(const std::string& name, NodeId a, NodeId c) {
  const Shape shape = program[a].type.shape;
  Node node;
  const int k = node.space.add_factor("k", 3, FactorKind::parallel),
            b = node.space.add_factor("b", shape[1], FactorKind::parallel),
            y = node.space.add_factor("y", shape[0], FactorKind::sum);
  const DimIndex row{{IndexTerm{y}, IndexTerm{k}}, -1};
  node.space.inputs = {{{row, index_by(b)}, true}, {{index_by(y), index_by(b)}}};
  node.space.output = {{index_by(k), index_by(b)}};
  return append(std::move(node), name, "window products", {a, c}, Expr::input(0) * Expr::input(1), {3, shape[1]});
}

NodeId ProgramBuilder::append(Node node, const std::string& name, const std::string& attributes,
                              std::vector<NodeId> inputs, Expr body, Shape shape) {
  node.id = int(program.nodes.size());
  node.name = name;
  node.phase = phase_;
  node.op = std::make_shared<NamedOperator>(attributes);
  node.inputs = std::move(inputs);
  node.body = std::move(body);
  node.type.shape = std::move(shape);
  program.nodes.push_back(std::move(node));
  return program.nodes.back().id;
}

Program mlp(int64_t batch, std::vector<int64_t> widths) {
  ProgramBuilder b;
  Expr in0 = Expr::input(0), in1 = Expr::input(1), in2 = Expr::input(2);
  std::vector<NodeId> weights, momenta, sums, layers{b.input("x", {batch, widths[0]})};
  NodeId target = b.input("y", {batch, widths.back()});
  for (size_t l = 1; l < widths.size(); ++l) {
    weights.push_back(b.parameter(fmt::format("w{}", l), {widths[l - 1], widths[l]}));
    momenta.push_back(b.state(fmt::format("m{}", l), {widths[l - 1], widths[l]}));
  }
  for (size_t l = 1; l < widths.size(); ++l) {
    sums.push_back(b.op(fmt::format("z{}", l), "bk,kn->bn", {layers.back(), weights[l - 1]}));
    layers.push_back(l + 1 < widths.size() ? b.op(fmt::format("h{}", l), "bn->bn", {sums.back()}, maximum(in0, 0.0))
                                           : sums.back());
  }
  NodeId difference = b.op("difference", "bn,bn->bn", {layers.back(), target}, in0 - in1);
  NodeId squares = b.op("squares", "bn->", {difference}, in0 * in0);
  b.program.loss = b.op("loss", "->", {squares}, in0 * (1.0 / double(batch)));
  b.phase(Phase::backward);
  NodeId gradient = b.op("d_difference", "bn->bn", {difference}, in0 * (2.0 / double(batch)));
  std::vector<NodeId> weight_gradients(weights.size());
  for (size_t l = weights.size(); l-- > 0;) {
    weight_gradients[l] = b.op(fmt::format("d_w{}", l + 1), "bk,bn->kn", {layers[l], gradient});
    if (l == 0) break;
    NodeId d_hidden = b.op(fmt::format("d_h{}", l), "bn,kn->bk", {gradient, weights[l]});
    gradient = b.op(fmt::format("d_z{}", l), "bk,bk->bk", {sums[l - 1], d_hidden}, select(less(0.0, in0), in1, 0.0));
  }
  b.phase(Phase::update);
  for (size_t l = 0; l < weights.size(); ++l) {
    NodeId momentum =
        b.op(fmt::format("new_m{}", l + 1), "kn,kn->kn", {momenta[l], weight_gradients[l]}, in0 * 0.9 + in1);
    NodeId weight = b.op(fmt::format("new_w{}", l + 1), "kn,kn->kn", {weights[l], momentum}, in0 - in1 * 0.1);
    b.program.updates.push_back({momenta[l], momentum});
    b.program.updates.push_back({weights[l], weight});
  }
  return b.program;
}

Program samples_and_rows() {
  ProgramBuilder b;
  const NodeId x = b.input("x", {2, 32, 32}), w = b.parameter("w", {32, 4096});
  const NodeId table = b.parameter("table", {8192, 32});
  const NodeId hidden = b.op("hidden", "btk,kn->btn", {x, w});
  b.program.loss = b.op("loss", "btn,btn->", {hidden, hidden});
  b.program.updates.push_back({table, b.op("next", "vk->vk", {table}, Expr::input(0) * 0.5)});
  return b.program;
}

Cluster cluster_of_speeds(const std::vector<double>& speeds, double link_bytes_per_second, double latency_seconds,
                          const std::vector<int64_t>& memory_bytes) {
  Cluster cluster;
  cluster.name = "test";
  cluster.hosts.push_back({"host", Link{link_bytes_per_second, latency_seconds}});
  for (size_t i = 0; i < speeds.size(); ++i) {
    Device device;
    device.name = fmt::format("device{}", i);
    device.index = int(i);
    device.memory_bytes = memory_bytes.empty() ? int64_t(1) << 40 : memory_bytes[i];
    device.declared = {speeds[i], speeds[i] / 10};
    cluster.devices.push_back(device);
  }
  return cluster;
}

namespace {

class Executor {
 public:
  Executor(const Program& reference, const SpmdProgram& spmd, const EvaluationContext& context)
      : reference_(reference),
        spmd_(spmd),
        context_(context),
        ranks_(spmd.mesh.device_count()),
        values_(spmd.values.size()) {}

  std::vector<LocalArray> part_of(const Value& value, const Array& whole) const {
    std::vector<LocalArray> parts;
    for (int rank = 0; rank < ranks_; ++rank)
      parts.push_back(cut(whole, local_ranges(spmd_, value.placements, whole.shape, rank)));
    return parts;
  }

  void set_leaf(ValueId id, const Array& whole) { values_[id] = part_of(spmd_.values[id], whole); }

  void run() {
    for (const Instruction& instruction : spmd_.instructions) {
      if (instruction.opcode == Opcode::compute)
        compute(instruction);
      else
        values_[instruction.result] = convert(instruction);
    }
  }

  /// "" if every rank holds its part of `expected`.
  std::string difference(ValueId id, const Array& expected) const {
    std::vector<LocalArray> parts = part_of(spmd_.values[id], expected);
    for (int rank = 0; rank < ranks_; ++rank)
      for (size_t i = 0; i < parts[rank].array.values.size(); ++i) {
        double want = parts[rank].array.values[i], got = values_[id][rank].array.values.at(i);
        // Float64 sums in another order over at most a few thousand terms.
        if (!(std::abs(want - got) <= 1e-9 * (1 + std::abs(want))))
          return fmt::format("{} on rank {} at {}: {} instead of {}", spmd_.values[id].name, rank, i, got, want);
      }
    return "";
  }

 private:
  LocalArray cut(const Array& whole, const std::vector<Range>& ranges) const {
    LocalArray part;
    Shape shape;
    for (const Range& range : ranges) {
      shape.push_back(range.hi - range.lo);
      part.offset.push_back(range.lo);
    }
    part.array = Array(shape);
    auto strides = row_major_strides(whole.shape), local = row_major_strides(shape);
    for (int64_t i = 0; i < element_count(shape); ++i) {
      int64_t from = 0;
      for (size_t d = 0; d < shape.size(); ++d) from += (ranges[d].lo + i / local[d] % shape[d]) * strides[d];
      part.array.values[i] = whole.values[from];
    }
    return part;
  }

  void compute(const Instruction& instruction) {
    const Node& node = reference_[instruction.node];
    for (int rank = 0; rank < ranks_; ++rank) {
      std::vector<LocalArray> inputs;
      for (ValueId operand : instruction.operands) inputs.push_back(values_[operand][rank]);
      auto ranges = factor_ranges(spmd_, node.space, instruction.splits, rank);
      values_[instruction.result].push_back(evaluate(node.space, node.body, inputs, ranges, node.type.shape, context_));
    }
  }

  /// What the ranks of one group along a mesh axis hold together; zero elsewhere.
  Array whole(ValueId id, int rank, int axis) const {
    const Value& value = spmd_.values[id];
    const Placement& placement = value.placements[axis];
    Array out(reference_[value.node].type.shape);
    bool first = true;
    for (int member : spmd_.mesh.group(rank, axis)) {
      const LocalArray& part = values_[id][member];
      auto strides = row_major_strides(out.shape), local = row_major_strides(part.array.shape);
      for (int64_t i = 0; i < element_count(part.array.shape); ++i) {
        int64_t to = 0;
        for (size_t d = 0; d < out.shape.size(); ++d)
          to += (part.offset[d] + i / local[d] % part.array.shape[d]) * strides[d];
        double v = part.array.values[i];
        bool reduces = placement.kind == Placement::Kind::partial && !first;
        if (!reduces)
          out.values[to] = v;
        else
          out.values[to] = placement.reduce == ReduceOp::sum ? out.values[to] + v : std::max(out.values[to], v);
      }
      first = false;
    }
    return out;
  }

  std::vector<LocalArray> convert(const Instruction& instruction) const {
    const Placements& placements = spmd_.values[instruction.result].placements;
    std::vector<LocalArray> parts;
    for (int rank = 0; rank < ranks_; ++rank) {
      Array group = whole(instruction.operands[0], rank, instruction.axis);
      parts.push_back(cut(group, local_ranges(spmd_, placements, group.shape, rank)));
      if (instruction.opcode == Opcode::to_partial && spmd_.mesh.coordinate(rank, instruction.axis) != instruction.root)
        std::fill(parts.back().array.values.begin(), parts.back().array.values.end(), 0.0);
    }
    return parts;
  }

  const Program& reference_;
  const SpmdProgram& spmd_;
  EvaluationContext context_;
  int ranks_;
  std::vector<std::vector<LocalArray>> values_;  ///< by value and rank
};

}  // namespace

int64_t memory_to_fill(int64_t bytes) {
  int64_t memory = bytes;
  while (memory - memory / 32 < bytes) ++memory;
  return memory;
}

int64_t fullest(const Plan& plan) {
  int64_t most = 0;
  for (const DevicePrediction& device : plan.prediction.devices) most = std::max(most, device.memory_bytes);
  return most;
}

std::string compare_with_reference(const Program& reference, const SpmdProgram& spmd, uint64_t seed) {
  EvaluationContext context{seed, 0};
  Bindings leaves;
  for (const Node& node : reference.nodes) {
    if (!node.leaf()) continue;
    Array array(node.type.shape);
    for (size_t i = 0; i < array.values.size(); ++i) {
      double u = philox_uniform(seed, 1000 + node.id, i, 0);
      array.values[i] = node.type.dtype == DType::i32 ? std::floor(4 * u) : 2 * u - 1;
    }
    leaves[node.id] = array;
  }
  std::vector<Array> expected = interpret(reference, leaves, context);
  Executor executor(reference, spmd, context);
  for (ValueId leaf : spmd.leaves) executor.set_leaf(leaf, leaves.at(spmd.values[leaf].node));
  executor.run();
  if (spmd.loss >= 0)
    if (std::string difference = executor.difference(spmd.loss, expected[reference.loss]); !difference.empty())
      return difference;
  for (const auto& [target, value] : spmd.finals) {
    NodeId node = spmd.values[value].node;
    if (std::string difference = executor.difference(value, expected[node]); !difference.empty()) return difference;
  }
  return "";
}

}  // namespace hetsynth::testing_support
