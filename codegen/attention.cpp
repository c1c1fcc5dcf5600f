#include "codegen/attention.h"

#include <algorithm>
#include <map>
#include <set>

#include "dsl/ir/attention.h"

namespace hetsynth::codegen {

std::vector<ValueId> FusedAttention::hidden() const {
  std::vector<ValueId> out;
  for (const auto* list : {&scores, &elements, &exponential, &after}) out.insert(out.end(), list->begin(), list->end());
  if (weights >= 0) out.push_back(weights);
  return out;
}

std::vector<ValueId> FusedAttention::values() const {
  std::vector<ValueId> out = hidden();
  for (const auto* list : {&products, &sums}) out.insert(out.end(), list->begin(), list->end());
  if (!backward) out.insert(out.end(), {maximum, total});
  return out;
}

std::vector<int> FusedAttention::dims_of(const LocalOp& op, const Program& reference) const {
  const Space& space = reference[op.node].space;
  std::vector<ValueId> blocks = hidden();
  bool makes_block = std::count(blocks.begin(), blocks.end(), op.result) > 0;
  if (makes_block) return dims_of_factors(space, space.output, shape);
  for (size_t j = 0; j < op.inputs.size(); ++j)
    if (std::count(blocks.begin(), blocks.end(), op.inputs[j].value))
      return dims_of_factors(space, space.inputs[j], shape);
  return {};
}

namespace {

/// Turns one attention of the reference program into nests, if this rank's operators allow.
class Rewriter {
 public:
  Rewriter(LocalProgram& program, const Program& reference, const Attention& attention)
      : program_(program), reference_(reference), a_(attention) {
    for (int i = 0; i < int(program.ops.size()); ++i) ops_[program.ops[i].node].push_back(i);
  }

  std::vector<FusedAttention> run() {
    if (!collect()) return {};
    std::vector<FusedAttention> out{forward()};
    if (a_.has_gradient()) out.push_back(backward());
    return out;
  }

 private:
  /// The one operator of a node whose result no instruction moves; nullopt if there is none or several.
  bool take_alone(NodeId node) {
    auto found = ops_.find(node);
    if (found == ops_.end() || found->second.size() != 1) return false;
    return take(node);
  }

  /// The operator that computes a node: its first, before anything moves the result.
  bool take(NodeId node) {
    auto found = ops_.find(node);
    if (found == ops_.end()) return false;
    const LocalOp& op = program_.ops[found->second.front()];
    const Space& space = reference_[node].space;
    if (op.collective || op.factors != space.factors || op.inputs.size() != space.inputs.size() || op.one_hot)
      return false;
    for (const Operand& operand : op.inputs)
      if (operand.access.zero_outside) return false;
    op_[node] = found->second.front();
    return true;
  }

  bool collect() {
    std::vector<NodeId> alone = a_.hidden(), others = a_.products;
    others.insert(others.end(), a_.sums.begin(), a_.sums.end());
    alone.insert(alone.end(), {a_.maximum, a_.total});
    if (a_.has_gradient()) alone.push_back(a_.dot);
    others.push_back(a_.mixed);
    for (NodeId node : alone)
      if (!take_alone(node) || program_.pinned[result(node)]) return false;
    for (NodeId node : others)
      if (!take(node)) return false;
    shape_ = reference_[a_.scores].type.shape;
    if (!same_ranges() || !whole_features()) return false;
    return ranges_[a_.column] == Range{0, shape_[a_.column]} && only_own_readers();
  }

  ValueId result(NodeId node) const { return program_.ops[op_.at(node)].result; }

  /// Every operator runs over the same part of the scores.
  bool same_ranges() {
    for (int64_t extent : shape_) ranges_.push_back({0, extent});
    const LocalOp& scores = program_.ops[op_.at(a_.scores)];
    read_ranges(scores, dims_of_factors(space_of(a_.scores), space_of(a_.scores).output, shape_), &ranges_);
    std::vector<NodeId> hidden = a_.hidden();
    std::set<NodeId> blocks(hidden.begin(), hidden.end());
    for (const auto& [node, op] : op_) {
      std::vector<Range> own = ranges_;
      std::vector<int> dims;
      if (blocks.count(node)) dims = dims_of_factors(space_of(node), space_of(node).output, shape_);
      const Node& n = reference_[node];
      for (size_t j = 0; j < n.inputs.size() && dims.empty(); ++j)
        if (blocks.count(n.inputs[j])) dims = dims_of_factors(n.space, n.space.inputs[j], shape_);
      read_ranges(program_.ops[op], dims, &own);
      if (own != ranges_) return false;
    }
    return true;
  }

  /// Scores are complete sums, and the result holds all of its features.
  bool whole_features() const {
    std::vector<NodeId> nodes{a_.scores, a_.mixed};
    if (a_.has_gradient()) nodes.push_back(a_.weights_gradient);
    for (NodeId node : nodes) {
      const LocalOp& op = program_.ops[op_.at(node)];
      const Space& space = space_of(node);
      for (size_t f = 0; f < space.factors.size(); ++f) {
        bool feature = node == a_.mixed ? mentions_factor(space.output, int(f)) && !indexes_scores(node, int(f))
                                        : space.factors[f].reduced();
        if (feature && op.extent(int(f)) != space.factors[f].size) return false;
      }
    }
    return true;
  }

  /// Whether a factor of a product with a block is a dimension of the block.
  bool indexes_scores(NodeId product, int factor) const {
    std::vector<NodeId> hidden = a_.hidden();
    const Node& node = reference_[product];
    for (size_t j = 0; j < node.inputs.size(); ++j)
      if (std::count(hidden.begin(), hidden.end(), node.inputs[j]))
        return mentions_factor(node.space.inputs[j], factor);
    return false;
  }

  const Space& space_of(NodeId node) const { return reference_[node].space; }

  static void read_ranges(const LocalOp& op, const std::vector<int>& dims, std::vector<Range>* ranges) {
    for (size_t f = 0; f < dims.size(); ++f)
      if (dims[f] >= 0) (*ranges)[dims[f]] = op.ranges[f];
  }

  /// Nobody but the nests' operators reads a block, and they read it as it was made.
  bool only_own_readers() const {
    std::set<ValueId> blocks;
    std::set<int> own;
    for (NodeId node : a_.hidden()) blocks.insert(result(node));
    for (const auto& [node, op] : op_) own.insert(op);
    for (int i = 0; i < int(program_.ops.size()); ++i)
      for (const Operand& operand : program_.ops[i].inputs)
        if (blocks.count(operand.value) && !own.count(i)) return false;
    for (const auto& [node, op] : op_)
      for (size_t j = 0; j < reference_[node].inputs.size(); ++j) {
        auto made = op_.find(reference_[node].inputs[j]);
        if (made != op_.end() && blocks.count(result(made->first)) &&
            program_.ops[op].inputs[j].value != result(made->first))
          return false;
      }
    return true;
  }

  FusedAttention nest() const {
    FusedAttention out;
    out.shape = shape_;
    out.ranges = ranges_;
    out.row = a_.row;
    out.column = a_.column;
    out.causal = a_.causal;
    out.names.assign(shape_.size(), "i");
    const Space& space = space_of(a_.scores);
    std::vector<int> dims = dims_of_factors(space, space.output, shape_);
    for (size_t f = 0; f < dims.size(); ++f)
      if (dims[f] >= 0) out.names[dims[f]] = space.factors[f].name;
    return out;
  }

  std::vector<ValueId> results(const std::vector<NodeId>& nodes) const {
    std::vector<ValueId> out;
    for (NodeId node : nodes) out.push_back(result(node));
    return out;
  }

  FusedAttention forward() const {
    FusedAttention out = nest();
    out.scores = {result(a_.scores)};
    out.elements = results(a_.before);
    out.exponential = results(a_.exponential);
    out.after = results(a_.after);
    out.maximum = result(a_.maximum);
    out.total = result(a_.total);
    out.weights = result(a_.weights);
    out.products = {result(a_.mixed)};
    return out;
  }

  FusedAttention backward() {
    FusedAttention out = nest();
    out.backward = true;
    std::map<ValueId, ValueId> again;
    std::vector<LocalOp> clones;
    Phase phase = program_.ops[op_.at(a_.weights_gradient)].phase;
    auto clone = [&](NodeId node) {
      LocalOp op = program_.ops[op_.at(node)];
      ValueId copy = ValueId(program_.values.size());
      program_.values.push_back(LocalValue(program_.values[op.result]));
      program_.pinned.push_back(false);
      again[op.result] = copy;
      op.result = copy;
      op.phase = phase;
      redirect(op, again);
      clones.push_back(std::move(op));
      return copy;
    };
    out.scores.push_back(clone(a_.scores));
    for (const auto* list : {&a_.before, &a_.exponential})
      for (NodeId node : *list) out.elements.push_back(clone(node));
    out.elements.push_back(clone(a_.weights));
    for (NodeId node : a_.after) out.elements.push_back(clone(node));
    out.scores.push_back(result(a_.weights_gradient));
    for (const auto* list : {&a_.after_gradient, &a_.scores_gradient})
      for (NodeId node : *list) out.elements.push_back(result(node));
    out.products = results(a_.products);
    out.sums = results(a_.sums);

    program_.ops[op_.at(a_.dot)] = dot_of_results();
    int first = int(program_.ops.size());
    for (NodeId node : backward_nodes()) {
      redirect(program_.ops[op_.at(node)], again);
      first = std::min(first, op_.at(node));
    }
    program_.ops.insert(program_.ops.begin() + first, clones.begin(), clones.end());
    return out;
  }

  std::vector<NodeId> backward_nodes() const {
    std::vector<NodeId> out{a_.weights_gradient};
    for (const auto* list : {&a_.after_gradient, &a_.scores_gradient, &a_.products, &a_.sums})
      out.insert(out.end(), list->begin(), list->end());
    return out;
  }

  static void redirect(LocalOp& op, const std::map<ValueId, ValueId>& to) {
    for (Operand& operand : op.inputs)
      if (auto found = to.find(operand.value); found != to.end()) operand.value = found->second;
  }

  /// sum over columns of weights * gradient = sum over features of result * gradient: no block is needed for it.
  LocalOp dot_of_results() const {
    const Node& product = reference_[a_.weights_gradient];
    const LocalOp& local = program_.ops[op_.at(a_.weights_gradient)];
    LocalOp op = program_.ops[op_.at(a_.dot)];
    std::vector<int> dims = dims_of_factors(product.space, product.space.output, shape_), now(dims.size(), -1);
    op.factors.clear();
    op.ranges.clear();
    for (size_t f = 0; f < dims.size(); ++f) {
      if (dims[f] == a_.column) continue;
      now[f] = int(op.factors.size());
      op.factors.push_back(local.factors[f]);
      op.ranges.push_back(local.ranges[f]);
    }
    auto renumbered = [&](Access access) {
      for (DimIndex& index : access.dims)
        for (IndexTerm& term : index.terms) term.factor = now[term.factor];
      return access;
    };
    Access as_result = product.space.inputs[a_.result_gradient];
    Operand gradient = local.inputs[a_.result_gradient];
    gradient.access = renumbered(gradient.access);
    op.inputs = {{result(a_.mixed), normalise(renumbered(as_result), op.ranges)}, gradient};
    op.body = Expr::input(0) * Expr::input(1);

    const Node& dot = reference_[a_.dot];
    std::vector<int> dot_dims = dims_of_factors(dot.space, dot.space.inputs[0], shape_);
    Access output = dot.space.output;
    for (DimIndex& index : output.dims)
      for (IndexTerm& term : index.terms)
        for (size_t f = 0; f < dims.size(); ++f)
          if (dims[f] == dot_dims[term.factor]) {
            term.factor = now[f];
            break;
          }
    op.output = normalise(output, op.ranges);
    return op;
  }

  LocalProgram& program_;
  const Program& reference_;
  const Attention& a_;
  std::map<NodeId, std::vector<int>> ops_;  ///< by node
  std::map<NodeId, int> op_;                ///< operator that computes each node of the attention
  Shape shape_;
  std::vector<Range> ranges_;
};

}  // namespace

std::vector<FusedAttention> fuse_attention(LocalProgram& program, const Program& reference) {
  std::vector<FusedAttention> out;
  for (const Attention& attention : find_attention(reference)) {
    std::vector<FusedAttention> nests = Rewriter(program, reference, attention).run();
    out.insert(out.end(), nests.begin(), nests.end());
  }
  return out;
}

bool can_be_written(const FusedAttention& nest, const LocalProgram& program, const Layouts& layouts) {
  std::vector<ValueId> blocks = nest.hidden(), own = nest.values();
  auto in = [](const std::vector<ValueId>& list, ValueId v) { return std::count(list.begin(), list.end(), v) > 0; };
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const LocalOp& op = program.ops[i];
    if (!in(own, op.result)) continue;
    if (layouts.window[i] || (!in(blocks, op.result) && !layouts.written(op).affine())) return false;
    for (size_t j = 0; j < op.inputs.size(); ++j)
      if (!in(blocks, op.inputs[j].value) && !layouts.read(op, int(j)).affine()) return false;
  }
  return true;
}

}  // namespace hetsynth::codegen
