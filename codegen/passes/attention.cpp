#include "codegen/passes/attention.h"

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
    std::vector<FusedAttention> out{forward(op_)};
    if (!again_.empty()) {
      out.push_back(forward(again_));
      for (const auto& [node, op] : again_) op_[node] = op;  // the gradient is that of these
    }
    if (a_.has_gradient()) out.push_back(backward());
    return out;
  }

 private:
  using Ops = std::map<NodeId, int>;

  bool suits(int index) const {
    const LocalOp& op = program_.ops[index];
    const Space& space = reference_[op.node].space;
    if (op.collective || op.factors != space.factors || op.inputs.size() != space.inputs.size() || op.one_hot)
      return false;
    return std::ranges::none_of(op.inputs, [](const Operand& operand) { return operand.access.zero_outside; });
  }

  /// The operators of a node whose result no instruction moves: one, or one more that makes it again.
  bool take_alone(NodeId node) {
    const std::vector<int>& found = ops_[node];
    if (found.empty() || found.size() > 2) return false;
    for (int op : found)
      if (!suits(op) || program_.pinned[program_.ops[op].result]) return false;
    op_[node] = found.front();
    if (found.size() == 2) again_[node] = found.back();
    return found.size() == 1 || program_.ops[found.back()].again;
  }

  /// The operator that computes a node: its first, before anything moves the result.
  bool take(NodeId node) {
    const std::vector<int>& found = ops_[node];
    if (found.empty() || !suits(found.front())) return false;
    op_[node] = found.front();
    return true;
  }

  /// The forward pass is there once, or twice as a whole before the gradient.
  bool takes_all_again(const std::vector<NodeId>& forward) {
    if (again_.empty()) return true;
    const std::vector<int>& mixed = ops_[a_.mixed];
    const auto second = std::ranges::find_if(mixed, [&](int op) { return program_.ops[op].again && suits(op); });
    if (second == mixed.end()) return false;
    again_[a_.mixed] = *second;
    for (NodeId node : a_.has_gradient() ? backward_nodes() : std::vector<NodeId>{})
      for (const auto& [made, op] : again_)
        if (op > op_.at(node)) return false;
    return again_.size() == forward.size() + 1 &&
           std::ranges::all_of(forward, [&](NodeId node) { return again_.contains(node); });
  }

  bool collect() {
    std::vector<NodeId> forward = a_.hidden_forward(), alone = a_.hidden(), others = a_.products;
    others.insert(others.end(), a_.sums.begin(), a_.sums.end());
    for (auto* list : {&forward, &alone}) list->insert(list->end(), {a_.maximum, a_.total});
    others.push_back(a_.mixed);
    if (a_.has_gradient()) others.push_back(a_.dot);
    if (!std::ranges::all_of(alone, [&](NodeId node) { return take_alone(node); }) ||
        !std::ranges::all_of(others, [&](NodeId node) { return take(node); }) || !takes_all_again(forward))
      return false;
    shape_ = reference_[a_.scores].type.shape;
    if (!same_ranges() || !whole_features()) return false;
    return ranges_[a_.column] == Range{0, shape_[a_.column]} && only_own_readers();
  }

  ValueId result(NodeId node) const { return result(op_, node); }
  ValueId result(const Ops& ops, NodeId node) const { return program_.ops[ops.at(node)].result; }

  /// All operators taken, the same node's twice where it is made again.
  std::vector<std::pair<NodeId, int>> taken() const {
    std::vector<std::pair<NodeId, int>> out(op_.begin(), op_.end());
    out.insert(out.end(), again_.begin(), again_.end());
    return out;
  }

  /// Every operator runs over the same part of the scores; sums of weights times their gradient, which are no part of a
  /// nest, may be taken of some of its rows and gathered.
  bool same_ranges() {
    for (int64_t extent : shape_) ranges_.push_back({0, extent});
    const LocalOp& scores = program_.ops[op_.at(a_.scores)];
    read_ranges(scores, dims_of_factors(space_of(a_.scores), space_of(a_.scores).output, shape_), &ranges_);
    std::vector<NodeId> hidden = a_.hidden();
    std::set<NodeId> blocks(hidden.begin(), hidden.end());
    for (const auto& [node, op] : taken()) {
      std::vector<Range> own = ranges_;
      std::vector<int> dims;
      if (blocks.count(node)) dims = dims_of_factors(space_of(node), space_of(node).output, shape_);
      const Node& n = reference_[node];
      for (size_t j = 0; j < n.inputs.size() && dims.empty(); ++j)
        if (blocks.count(n.inputs[j])) dims = dims_of_factors(n.space, n.space.inputs[j], shape_);
      read_ranges(program_.ops[op], dims, &own);
      if (node == a_.dot ? !within(own) : own != ranges_) return false;
    }
    return true;
  }

  /// Whether a part is one of rows: all columns, and nothing that is not in the nest.
  bool within(const std::vector<Range>& part) const {
    for (size_t d = 0; d < part.size(); ++d)
      if (part[d].lo < ranges_[d].lo || part[d].hi > ranges_[d].hi) return false;
    return part[size_t(a_.column)] == ranges_[size_t(a_.column)];
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
    for (NodeId node : a_.hidden())
      for (int op : ops_.at(node)) blocks.insert(program_.ops[op].result);
    for (const auto& [node, op] : taken()) own.insert(op);
    for (int i = 0; i < int(program_.ops.size()); ++i)
      for (const Operand& operand : program_.ops[i].inputs)
        if (blocks.count(operand.value) && !own.count(i)) return false;
    for (const auto& [node, op] : taken())
      for (size_t j = 0; j < reference_[node].inputs.size(); ++j)
        if (!reads_block(program_.ops[op].inputs[j].value, node, op, reference_[node].inputs[j])) return false;
    return true;
  }

  /// Whether a value is a block of the operator's own pass, or no block is wanted. The gradient makes the blocks of the
  /// forward pass itself.
  bool reads_block(ValueId value, NodeId reader, int op, NodeId wanted) const {
    if (std::ranges::count(a_.hidden(), wanted) == 0) return true;
    const bool first = value == result(wanted), second = again_.contains(wanted) && value == result(again_, wanted);
    if (!again_.contains(reader)) return first || second;
    return again_.at(reader) == op ? second : first;
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

  std::vector<ValueId> results(const Ops& ops, const std::vector<NodeId>& nodes) const {
    std::vector<ValueId> out;
    for (NodeId node : nodes) out.push_back(result(ops, node));
    return out;
  }

  FusedAttention forward(const Ops& ops) const {
    FusedAttention out = nest();
    out.scores = {result(ops, a_.scores)};
    out.elements = results(ops, a_.before);
    out.exponential = results(ops, a_.exponential);
    out.after = results(ops, a_.after);
    out.maximum = result(ops, a_.maximum);
    out.total = result(ops, a_.total);
    out.weights = result(ops, a_.weights);
    out.products = {result(ops, a_.mixed)};
    return out;
  }

  FusedAttention backward() {
    FusedAttention out = nest();
    out.backward = true;
    int first = int(program_.ops.size());
    for (NodeId node : backward_nodes()) first = std::min(first, op_.at(node));
    std::map<ValueId, ValueId> again = made_again_before(first);
    std::vector<LocalOp> clones;
    Phase phase = program_.ops[op_.at(a_.weights_gradient)].phase;
    auto clone = [&](NodeId node) {
      LocalOp op = program_.ops[op_.at(node)];
      ValueId copy = ValueId(program_.values.size());
      program_.values.push_back(LocalValue(program_.values[op.result]));
      program_.pinned.push_back(false);
      for (int made : ops_.at(node)) again[program_.ops[made].result] = copy;
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
    out.products = results(op_, a_.products);
    out.sums = results(op_, a_.sums);

    program_.ops[op_.at(a_.dot)] = dot_of_results();
    for (NodeId node : backward_nodes()) redirect(program_.ops[op_.at(node)], again);
    program_.ops.insert(program_.ops.begin() + first, clones.begin(), clones.end());
    return out;
  }

  /// For what the forward pass read, what the plan makes in place of it before an operator: the first may be gone.
  std::map<ValueId, ValueId> made_again_before(int index) const {
    std::map<ValueId, ValueId> latest;  // by what was made first
    for (int i = 0; i < index; ++i) latest[program_.first_made(program_.ops[i].result)] = program_.ops[i].result;
    std::map<ValueId, ValueId> out;
    for (const auto& [node, op] : op_)
      for (const Operand& operand : program_.ops[op].inputs)
        if (auto found = latest.find(program_.first_made(operand.value)); found != latest.end())
          out[operand.value] = found->second;
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
    std::vector<Range> rows = ranges_;
    read_ranges(op, dims_of_factors(space_of(a_.dot), space_of(a_.dot).inputs[0], shape_), &rows);
    std::vector<int> dims = dims_of_factors(product.space, product.space.output, shape_), now(dims.size(), -1);
    op.factors.clear();
    op.ranges.clear();
    for (size_t f = 0; f < dims.size(); ++f) {
      if (dims[f] == a_.column) continue;
      now[f] = int(op.factors.size());
      op.factors.push_back(local.factors[f]);
      op.ranges.push_back(dims[f] < 0 ? local.ranges[f] : rows[size_t(dims[f])]);
    }
    auto renumbered = [&](Access access) {
      for (DimIndex& index : access.dims)
        for (IndexTerm& term : index.terms) term.factor = now[term.factor];
      return access;
    };
    Access as_result = product.space.inputs[a_.result_gradient];
    Operand gradient = local.inputs[a_.result_gradient];
    gradient.access = normalise(renumbered(gradient.access), op.ranges);
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
  Ops op_;                                  ///< operator that computes each node of the attention
  Ops again_;                               ///< of those of the forward pass, if the plan makes it again
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
