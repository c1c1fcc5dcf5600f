#include "dsl/ir/attention.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

namespace hetsynth {

std::vector<int> dims_of_factors(const Space& space, const Access& access, const Shape& shape) {
  std::vector<int> dims(space.factors.size(), -1);
  if (access.zero_outside || access.dims.size() != shape.size()) return {};
  for (size_t d = 0; d < shape.size(); ++d) {
    const DimIndex& index = access.dims[d];
    if (index.offset != 0 || index.per_turn != 0 || index.terms.size() > 1) return {};
    if (index.terms.empty()) {
      if (shape[d] != 1) return {};
      continue;
    }
    const IndexTerm& term = index.terms[0];
    bool plain = term.plain() && term.stride == 1 && space.factors[term.factor].size == shape[d];
    if (!plain || dims[term.factor] >= 0) return {};
    dims[term.factor] = int(d);
  }
  return dims;
}

std::vector<NodeId> Attention::hidden_forward() const {
  std::vector<NodeId> out{scores};
  for (const auto* list : {&before, &exponential}) out.insert(out.end(), list->begin(), list->end());
  out.push_back(weights);
  out.insert(out.end(), after.begin(), after.end());
  return out;
}

std::vector<NodeId> Attention::hidden() const {
  std::vector<NodeId> out = hidden_forward();
  if (has_gradient()) out.push_back(weights_gradient);
  for (const auto* list : {&after_gradient, &scores_gradient}) out.insert(out.end(), list->begin(), list->end());
  return out;
}

namespace {

constexpr int longest_chain = 8;

class Finder {
 public:
  explicit Finder(const Program& program) : program_(program), consumers_(program.consumers()) {
    for (const Update& update : program.updates) read_outside_.insert(update.value);
    for (const NamedOutput& output : program.outputs) read_outside_.insert(output.node);
    read_outside_.insert(program.loss);
  }

  std::vector<Attention> run() {
    std::vector<Attention> out;
    for (const Node& node : program_.nodes) {
      // A query per time step is no block.
      if (node.loop >= 0 && !program_.loops[size_t(node.loop)].of_samples) continue;
      std::optional<Attention> found = from_weights(node);
      if (found && in_one_loop(*found)) out.push_back(std::move(*found));
    }
    return out;
  }

 private:
  static Expr in(int operand) { return Expr::input(operand); }

  /// The scores-shaped tensor's dimension by factor, as seen through the result; empty: not elementwise over it.
  std::vector<int> result_dims(const Node& node) const {
    return node.leaf() ? std::vector<int>{} : dims_of_factors(node.space, node.space.output, shape_);
  }
  std::vector<int> operand_dims(const Node& node, int j) const {
    return dims_of_factors(node.space, node.space.inputs[j], shape_);
  }

  /// Whether the operand is scores-shaped and read at the very element that is computed.
  bool reads_same_element(const Node& node, int j) const {
    if (program_[node.inputs[j]].type.shape != shape_) return false;
    std::vector<int> written = result_dims(node);
    return !written.empty() && operand_dims(node, j) == written;
  }

  bool elementwise(const Node& node) const {
    return !node.leaf() && !node.space.reduction() && node.type.shape == shape_ && !result_dims(node).empty();
  }

  static bool is_product(const Node& node) {
    return !node.leaf() && node.inputs.size() == 2 && node.inputs[0] != node.inputs[1] &&
           node.space.reduction() == FactorKind::sum && node.body == in(0) * in(1) && node.type.dtype == DType::f32;
  }

  /// A product whose result is scores-shaped and which sums over one factor, of two operands that share it: one of the
  /// rows, one of the columns.
  bool is_scores_product(const Node& node) const {
    if (!is_product(node) || node.type.shape != shape_) return false;
    std::vector<int> dims = result_dims(node);
    if (dims.empty()) return false;
    int summed = -1;
    for (int f = 0; f < int(dims.size()); ++f) {
      if (dims[f] >= 0) continue;
      if (summed >= 0 || !node.space.factors[f].reduced()) return false;
      summed = f;
    }
    return summed >= 0 && mentions_factor(node.space.inputs[0], summed) &&
           mentions_factor(node.space.inputs[1], summed);
  }

  /// A reduction of a scores-shaped tensor over its columns alone; gives the dimension reduced.
  std::optional<int> reduced_dim(const Node& node, int operand, FactorKind kind) const {
    if (node.leaf() || node.space.reduction() != kind) return std::nullopt;
    std::vector<int> dims = operand_dims(node, operand);
    std::optional<int> found;
    for (int f = 0; f < int(dims.size()); ++f) {
      if (!node.space.factors[f].reduced()) continue;
      if (found || dims[f] < 0) return std::nullopt;
      found = dims[f];
    }
    return found;
  }

  /// A chain of elementwise operators that leads back from `last` to a product, each through one operand; first
  /// operator first.
  std::optional<std::vector<NodeId>> back_to_product(NodeId last, NodeId* product, int depth = 0) const {
    const Node& node = program_[last];
    if (is_scores_product(node)) {
      *product = last;
      return std::vector<NodeId>{};
    }
    if (!elementwise(node) || depth == longest_chain) return std::nullopt;
    for (int j = 0; j < int(node.inputs.size()); ++j) {
      if (!reads_same_element(node, j)) continue;
      auto chain = back_to_product(node.inputs[j], product, depth + 1);
      if (!chain) continue;
      chain->push_back(last);
      return chain;
    }
    return std::nullopt;
  }

  std::optional<Attention> from_weights(const Node& node) {
    if (node.leaf() || node.body != in(0) / in(1) || node.space.reduction()) return std::nullopt;
    shape_ = node.type.shape;
    if (!reads_same_element(node, 0)) return std::nullopt;
    Attention a;
    a.weights = node.id;
    a.total = node.inputs[1];
    if (!softmax(a) || !forward(a) || !choose_rows(a)) return std::nullopt;
    std::set<NodeId> others = consumers_outside(a);
    if (!others.empty() && (!backward(a, others) || !consumers_outside(a).empty())) return std::nullopt;
    a.causal = hides_future(a);
    return a;
  }

  bool softmax(Attention& a) const {
    NodeId exponential = program_[a.weights].inputs[0];
    const Node& e = program_[exponential];
    const Node* difference = &e;
    if (elementwise(e) && e.body == exp(in(0)) && reads_same_element(e, 0)) {
      difference = &program_[e.inputs[0]];
      if (!elementwise(*difference) || difference->body != in(0) - in(1)) return false;
      a.exponential = {difference->id, exponential};
    } else {
      if (!elementwise(e) || e.body != exp(in(0) - in(1))) return false;
      a.exponential = {exponential};
    }
    if (!reads_same_element(*difference, 0)) return false;
    NodeId argument = difference->inputs[0];
    a.maximum = difference->inputs[1];
    const Node& maximum = program_[a.maximum];
    const Node& total = program_[a.total];
    if (maximum.leaf() || total.leaf() || maximum.body != in(0) || total.body != in(0)) return false;
    if (maximum.inputs[0] != argument || total.inputs[0] != exponential) return false;
    auto over = reduced_dim(maximum, 0, FactorKind::max), also = reduced_dim(total, 0, FactorKind::sum);
    if (!over || over != also) return false;
    a.column = *over;
    auto chain = back_to_product(argument, &a.scores);
    if (!chain) return false;
    a.before = std::move(*chain);
    return true;
  }

  /// Scores-shaped dimensions that a product of a scores-shaped operand sums over; nullopt if it is no such product.
  std::optional<std::set<int>> summed_by(const Node& node, NodeId operand) const {
    if (!is_product(node)) return std::nullopt;
    int j = node.inputs[0] == operand ? 0 : 1;
    if (node.inputs[j] != operand) return std::nullopt;
    std::vector<int> dims = operand_dims(node, j);
    if (dims.empty()) return std::nullopt;
    std::set<int> summed;
    int features = 0;
    for (int f = 0; f < int(dims.size()); ++f) {
      if (dims[f] >= 0 && node.space.factors[f].reduced()) summed.insert(dims[f]);
      if (dims[f] >= 0) continue;
      ++features;
      if (node.space.factors[f].reduced() || !mentions_factor(node.space.inputs[1 - j], f)) return std::nullopt;
    }
    if (features != 1) return std::nullopt;
    return summed;
  }

  /// From the weights to the product with the values.
  bool forward(Attention& a) const {
    NodeId at = a.weights;
    for (int length = 0; length <= longest_chain; ++length) {
      NodeId next = -1;
      for (NodeId consumer : consumers_[at]) {
        const Node& node = program_[consumer];
        if (summed_by(node, at) == std::set<int>{a.column}) {
          a.mixed = consumer;
          return true;
        }
        bool linear = elementwise(node) && node.inputs.size() == 1 && reads_same_element(node, 0) &&
                      linearity(node.body, {0}) == Linearity::linear;
        if (linear) next = consumer;
      }
      if (next < 0) return false;
      a.after.push_back(next);
      at = next;
    }
    return false;
  }

  /// Rows: the longest dimension that the queries have and the keys have not.
  bool choose_rows(Attention& a) const {
    const Node& scores = program_[a.scores];
    std::vector<int> dims = result_dims(scores);
    auto indexes = [&](int operand, int dim) {
      for (int f = 0; f < int(dims.size()); ++f)
        if (dims[f] == dim && mentions_factor(scores.space.inputs[operand], f)) return true;
      return false;
    };
    bool first = indexes(0, a.column), second = indexes(1, a.column);
    if (first == second) return false;
    int queries = first ? 1 : 0;
    for (int d = 0; d < int(shape_.size()); ++d) {
      if (shape_[d] <= 1 || !indexes(queries, d) || indexes(1 - queries, d)) continue;
      if (a.row < 0 || shape_[d] > shape_[a.row]) a.row = d;
    }
    return a.row >= 0 && other_operand(program_[a.mixed], multiplied(a), a.column, a.row) >= 0;
  }

  /// What multiplies the values.
  static NodeId multiplied(const Attention& a) { return a.after.empty() ? a.weights : a.after.back(); }

  /// The operand that a scores-shaped one is multiplied with, if it varies along the summed dimension but not along the
  /// kept one: then a block of the result is a product of two matrices. -1 otherwise.
  int other_operand(const Node& product, NodeId scores_shaped, int summed, int kept) const {
    int j = product.inputs[0] == scores_shaped ? 0 : 1;
    std::vector<int> dims = operand_dims(product, j);
    for (int f = 0; f < int(dims.size()); ++f) {
      bool there = mentions_factor(product.space.inputs[1 - j], f);
      if ((dims[f] == kept && there) || (dims[f] == summed && !there)) return -1;
    }
    return 1 - j;
  }

  bool in_one_loop(const Attention& a) const {
    return std::ranges::all_of(members(a), [&](NodeId id) { return program_[id].loop == program_[a.weights].loop; });
  }

  static std::set<NodeId> members(const Attention& a) {
    std::vector<NodeId> hidden = a.hidden();
    std::set<NodeId> out(hidden.begin(), hidden.end());
    out.insert({a.maximum, a.total, a.mixed});
    if (a.has_gradient()) out.insert(a.dot);
    out.insert(a.products.begin(), a.products.end());
    out.insert(a.sums.begin(), a.sums.end());
    return out;
  }

  /// Operators other than its own that read a scores-shaped tensor of it; -1 for outputs, updates and the loss.
  std::set<NodeId> consumers_outside(const Attention& a) const {
    std::set<NodeId> own = members(a), out;
    for (NodeId hidden : a.hidden()) {
      if (read_outside_.count(hidden)) out.insert(-1);
      for (NodeId consumer : consumers_[hidden])
        if (!own.count(consumer)) out.insert(consumer);
    }
    return out;
  }

  /// The gradient, from the operators that read the weights after the forward pass.
  bool backward(Attention& a, const std::set<NodeId>& readers) const {
    for (NodeId reader : readers) {
      if (reader < 0) return false;
      const Node& node = program_[reader];
      bool pairs = !node.leaf() && node.inputs.size() == 2 && node.body == in(0) * in(1) &&
                   reduced_dim(node, 0, FactorKind::sum) == a.column && operand_dims(node, 0) == operand_dims(node, 1);
      if (pairs && (node.inputs[0] == a.weights || node.inputs[1] == a.weights)) a.dot = reader;
    }
    if (a.dot < 0) return false;
    const Node& dot = program_[a.dot];
    NodeId gradient = dot.inputs[dot.inputs[0] == a.weights ? 1 : 0];
    auto chain = back_to_product(gradient, &a.weights_gradient);
    if (!chain || !mirrors(a, *chain)) return false;
    a.after_gradient = std::move(*chain);
    return through_softmax(a, gradient) && gradient_products(a);
  }

  /// Whether the gradient by the weights is what comes from sum(weights * gradient) = sum(result * its gradient): what
  /// lies between weights and product is undone by the same operators, and the product has the same values. A gradient
  /// passes a rounding as it is: with it the two sums differ by roundings of the weights, as those of every attention
  /// that keeps its weights in 16 bits (Dao 2023).
  bool mirrors(Attention& a, const std::vector<NodeId>& chain) const {
    std::vector<NodeId> after = a.after;
    std::erase_if(after, [&](NodeId id) { return is_rounding(program_[id].body); });
    if (chain.size() != after.size()) return false;
    for (size_t i = 0; i < chain.size(); ++i) {
      const Node& there = program_[after[i]];
      const Node& back = program_[chain[chain.size() - 1 - i]];
      if (back.inputs.size() != 1 || !(back.space == there.space) || back.body != there.body) return false;
    }
    const Node& product = program_[a.weights_gradient];
    const Node& mixed = program_[a.mixed];
    int values = other_operand(mixed, multiplied(a), a.column, a.row);
    for (int j : {0, 1}) {
      if (product.inputs[j] != mixed.inputs[values] || program_[product.inputs[1 - j]].type.shape != mixed.type.shape)
        continue;
      a.result_gradient = 1 - j;
      std::vector<int> here = result_dims(product), there = operand_dims(mixed, 1 - values);
      if (same_roles(product.space.inputs[j], here, mixed.space.inputs[values], there) &&
          same_roles(product.space.inputs[1 - j], here, mixed.space.output, there))
        return true;
    }
    return false;
  }

  /// Per dimension of an operand, which dimension of the scores indexes it; -1: the features.
  static std::optional<std::vector<int>> roles(const Access& access, const std::vector<int>& dims) {
    std::vector<int> out;
    for (const DimIndex& index : access.dims) {
      if (index.offset != 0 || index.terms.size() != 1 || !index.terms[0].plain() || index.terms[0].stride != 1)
        return std::nullopt;
      out.push_back(dims[index.terms[0].factor]);
    }
    return out;
  }

  static bool same_roles(const Access& a, const std::vector<int>& a_dims, const Access& b,
                         const std::vector<int>& b_dims) {
    auto first = roles(a, a_dims), second = roles(b, b_dims);
    return first && second && *first == *second;
  }

  /// The elementwise operators from the weights' gradient to the scores' gradient.
  bool through_softmax(Attention& a, NodeId gradient) const {
    NodeId at = -1;
    for (NodeId consumer : consumers_[a.dot]) {
      const Node& node = program_[consumer];
      bool reads_both = std::count(node.inputs.begin(), node.inputs.end(), a.weights) == 1 &&
                        std::count(node.inputs.begin(), node.inputs.end(), gradient) == 1;
      if (!elementwise(node) || !reads_both || at >= 0) return false;
      for (int j = 0; j < int(node.inputs.size()); ++j)
        if (node.inputs[j] != a.dot && !reads_same_element(node, j)) return false;
      at = consumer;
    }
    if (at < 0 || read_outside_.count(a.dot)) return false;
    for (int length = 0; length <= longest_chain; ++length) {
      a.scores_gradient.push_back(at);
      NodeId next = -1;
      for (NodeId reader : consumers_[at]) {
        if (!elementwise(program_[reader])) continue;
        if (next >= 0) return false;
        next = reader;
      }
      if (next < 0) return true;
      for (int j = 0; j < int(program_[next].inputs.size()); ++j)
        if (program_[next].inputs[j] == at && !reads_same_element(program_[next], j)) return false;
      at = next;
    }
    return false;
  }

  bool gradient_products(Attention& a) const {
    std::vector<NodeId> operands = a.scores_gradient;
    operands.push_back(multiplied(a));
    for (NodeId operand : operands)
      for (NodeId consumer : consumers_[operand]) {
        if (consumer == a.mixed) continue;
        if (sums_blocks(a, program_[consumer])) a.sums.push_back(consumer);
        auto summed = summed_by(program_[consumer], operand);
        // An operator of the gradient that is elementwise is known already; anything else will be found outside.
        if (!summed) continue;
        bool over_columns = summed->count(a.column) > 0;
        if (over_columns == (summed->count(a.row) > 0)) return false;
        int sum = over_columns ? a.column : a.row, kept = over_columns ? a.row : a.column;
        if (other_operand(program_[consumer], operand, sum, kept) < 0) return false;
        a.products.push_back(consumer);
      }
    std::sort(a.products.begin(), a.products.end());
    std::sort(a.sums.begin(), a.sums.end());
    return true;
  }

  /// A sum over other dimensions than rows and columns: a block of it is a sum of blocks.
  bool sums_blocks(const Attention& a, const Node& node) const {
    if (node.leaf() || node.space.reduction() != FactorKind::sum || node.body != in(0)) return false;
    std::vector<int> dims = operand_dims(node, 0);
    if (dims.empty() || node.type.dtype != DType::f32) return false;
    for (int f = 0; f < int(dims.size()); ++f) {
      if (dims[f] < 0) return false;
      if (node.space.factors[f].reduced() && (dims[f] == a.row || dims[f] == a.column)) return false;
    }
    return true;
  }

  bool hides_future(const Attention& a) const {
    if (a.before.empty()) return false;
    const Node& node = program_[a.before.back()];
    const Expr& body = node.body;
    if (body.kind() != ExprKind::select || body.arg(0).kind() != ExprKind::less) return false;
    const Expr &row = body.arg(0).arg(0), &column = body.arg(0).arg(1), &hidden = body.arg(1);
    if (row.kind() != ExprKind::factor || column.kind() != ExprKind::factor) return false;
    std::vector<int> dims = result_dims(node);
    return dims[row.index()] == a.row && dims[column.index()] == a.column && hidden.kind() == ExprKind::constant &&
           hidden.value() <= vanishing_score;
  }

  const Program& program_;
  std::vector<std::vector<NodeId>> consumers_;
  std::set<NodeId> read_outside_;
  Shape shape_;  ///< of the scores-shaped tensors at hand
};

}  // namespace

std::vector<Attention> find_attention(const Program& program) { return Finder(program).run(); }

}  // namespace hetsynth
