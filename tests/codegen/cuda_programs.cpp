#include "cuda_programs.h"

#include <fmt/format.h>

#include <cmath>

#include "dsl/base/error.h"
#include "dsl/spmd/hosts.h"

namespace hetsynth::testing_support {

SampleProgram all_samples() {
  SampleProgram out;
  auto append = [&](Node node) {
    node.id = NodeId(out.program.nodes.size());
    out.program.nodes.push_back(node);
    return node.id;
  };
  for (const OperatorInfo& info : operator_list())
    for (size_t s = 0; s < info.samples.size(); ++s) {
      const OperatorSample& sample = info.samples[s];
      Node operation;
      operation.name = fmt::format("{}_{}", info.name, s);
      for (size_t j = 0; j < sample.inputs.size(); ++j) {
        Node leaf;
        // Of any shape and any value: what a user's input may not be, such as infinite or without samples.
        leaf.kind = NodeKind::state;
        leaf.type = sample.inputs[j];
        leaf.name = fmt::format("{}_{}", operation.name, char('a' + j));
        operation.inputs.push_back(append(leaf));
        out.domains[operation.inputs.back()] = j < sample.domains.size() ? sample.domains[j] : OperatorSample::Domain{};
      }
      operation.type = sample.op->infer(sample.inputs);
      operation.op = sample.op;
      operation.space = sample.op->space(sample.inputs, operation.type);
      operation.body = sample.op->body(sample.inputs, operation.type);
      NodeId id = append(operation);
      out.program.outputs.push_back({operation.name, id});
    }
  return out;
}

namespace {

class Splitter {
 public:
  Splitter(const Program& reference, int ranks, int variant) : reference_(reference), ranks_(ranks), variant_(variant) {
    out_.mesh.axes = {{"dp", ranks}};
    for (int rank = 0; ranks > 2 && rank < ranks; ++rank) out_.hosts.push_back(rank / 2);  // the last is alone
  }

  SpmdProgram run() {
    for (const Node& node : reference_.nodes)
      if (!node.leaf()) add(node);
    return std::move(out_);
  }

 private:
  ValueId value(const Node& node, Placement placement) {
    out_.values.push_back({fmt::format("{}@{}", node.name, out_.values.size()), node.id, {placement}});
    return ValueId(out_.values.size()) - 1;
  }

  /// Shares that differ, with an empty one in every second variant.
  int table(int64_t extent) {
    BoundaryTable table{fmt::format("t{}", out_.tables.size()), 0, extent, {0}};
    for (int r = 1; r < ranks_; ++r) {
      int64_t bound = extent * (r + variant_ % 3) / (ranks_ + 2);
      table.bounds.push_back(variant_ % 2 && r > 1 ? table.bounds.back() : bound);
    }
    table.bounds.push_back(extent);
    out_.tables.push_back(table);
    return int(out_.tables.size()) - 1;
  }

  void add(const Node& node) {
    std::vector<int> factors;
    for (size_t f = 0; f < node.space.factors.size(); ++f)
      if (node.space.factors[f].kind != FactorKind::whole && node.space.factors[f].size > 1) factors.push_back(int(f));
    for (size_t i = 0; i < factors.size(); ++i)
      if (try_split(node, factors[(i + size_t(variant_)) % factors.size()])) return;
    HETSYNTH_CHECK(try_split(node, -1), "an operation can run unsplit");
  }

  bool try_split(const Node& node, int factor) {
    SpmdProgram before = out_;
    Instruction compute;
    compute.node = node.id;
    compute.splits = {Split{factor, factor < 0 ? -1 : table(node.space.factors[size_t(factor)].size)}};
    for (size_t j = 0; j < node.inputs.size(); ++j) {
      const Node& leaf = reference_[node.inputs[j]];
      std::optional<FactorCut> cut;
      if (factor >= 0) cut = cut_of(node.space, node.space.inputs[j], leaf.type.shape, factor);
      compute.operands.push_back(
          value(leaf, cut ? Placement::sharded(cut->dim, compute.splits[0].table) : Placement::replicated()));
      out_.leaves.push_back(compute.operands.back());
    }
    std::optional<Placements> placements = infer_placements(out_, reference_, compute, nullptr);
    if (!placements) {
      out_ = before;
      return false;
    }
    compute.result = value(node, placements->front());
    out_.instructions.push_back(compute);
    bring_together(node, compute.result);
    return true;
  }

  void bring_together(const Node& node, ValueId from) {
    Placement p = out_.values[size_t(from)].placements[0];
    Realisation realisation = Realisation((variant_ + node.id / 2) % 4);
    size_t rank = node.type.shape.size();
    if (p.kind == Placement::Kind::partial) {
      if (rank == 0 || (variant_ + node.id) % 2)
        return collective(node, Opcode::all_reduce, from, Placement::replicated(), p.reduce, realisation);
      int dim = (variant_ + node.id) % int(rank);
      Placement cut = Placement::sharded(dim, table(node.type.shape[size_t(dim)]));
      collective(node, Opcode::reduce_scatter, from, cut, p.reduce, realisation);
      from = out_.instructions.back().result, p = cut;
    }
    if (p.kind != Placement::Kind::sharded) return;
    int to_dim = (p.dim + 1) % int(rank);
    if (to_dim != p.dim && (variant_ + node.id) % 2) {
      Placement cut = Placement::sharded(to_dim, table(node.type.shape[size_t(to_dim)]));
      collective(node, Opcode::all_to_all, from, cut, ReduceOp::sum, realisation);
      from = out_.instructions.back().result, p = cut;
    }
    collective(node, Opcode::all_gather, from, Placement::replicated(), ReduceOp::sum, realisation);
  }

  void collective(const Node& node, Opcode opcode, ValueId from, Placement to, ReduceOp reduce,
                  Realisation realisation) {
    Placement source = out_.values[size_t(from)].placements[0];
    Instruction i;
    i.opcode = opcode;
    i.operands = {from};
    i.node = node.id;
    i.axis = 0;
    i.reduce = reduce;
    i.realisation = realisation;
    const Placement& cut = opcode == Opcode::reduce_scatter ? to : source;
    if (opcode != Opcode::all_reduce) i.dim = cut.dim, i.table = cut.table;
    if (opcode == Opcode::all_to_all) i.to_dim = to.dim, i.to_table = to.table;
    if (realisation == Realisation::hierarchical && !why_not_hierarchical(out_, i).empty())
      i.realisation = Realisation::native;
    i.cause = "the test wants it whole";
    i.result = value(node, to);
    out_.instructions.push_back(i);
  }

  const Program& reference_;
  int ranks_, variant_;
  SpmdProgram out_;
};

}  // namespace

SpmdProgram split_samples(const Program& reference, int ranks, int variant) {
  return Splitter(reference, ranks, variant).run();
}

Array random_contents(const Node& leaf, const OperatorSample::Domain& domain, uint64_t seed) {
  Array out(leaf.type.shape);
  for (size_t i = 0; i < out.values.size(); ++i) {
    double u = philox_uniform(seed, leaf.id, i, 0);
    double value = domain.low + u * (domain.high - domain.low);
    out.values[i] = leaf.type.dtype == DType::i32 ? std::floor(domain.low + u * (domain.high - domain.low + 1))
                                                  : double(float(value));
  }
  return out;
}

Cluster cuda_cluster(const std::vector<double>& speeds) {
  Cluster cluster;
  cluster.name = "gpus";
  cluster.file = "gpus.toml";
  cluster.hosts = {{"host", {1e10, 1e-5}}};
  cluster.between = {1e9, 1e-4};
  for (size_t i = 0; i < speeds.size(); ++i) {
    Device device;
    device.name = fmt::format("gpu{}", i);
    device.kind = DeviceKind::cuda;
    device.model = "A100";
    device.architecture = "sm_80";
    device.index = int(i);
    device.memory_bytes = int64_t(1) << 34;
    device.declared = {speeds[i] * 1e13, speeds[i] * 1e12};
    cluster.devices.push_back(device);
  }
  return cluster;
}

}  // namespace hetsynth::testing_support
