#include "dsl/ir/weight_columns.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace hetsynth {
namespace {

/// A dimension of a tensor.
using Columns = std::pair<NodeId, int>;

bool is_product(const Node& node) {
  const Expr& body = node.body;
  return !node.leaf() && node.space.reduction() == FactorKind::sum && node.inputs.size() == 2 &&
         body.kind() == ExprKind::mul && body.arg(0).kind() == ExprKind::input &&
         body.arg(1).kind() == ExprKind::input && body.arg(0).index() != body.arg(1).index();
}

/// The dimension that the factor runs over, from one end to the other; -1 if there is none.
int dimension_of(const Node& node, const Shape& shape, const Access& access, int factor) {
  if (access.zero_outside) return -1;
  for (size_t dim = 0; dim < access.dims.size(); ++dim)
    if (access.dims[dim] == index_by(factor) && shape[dim] == node.space.factors[size_t(factor)].size) return int(dim);
  return -1;
}

class Finder {
 public:
  explicit Finder(const Program& program) : program_(program), is_weight_(program.nodes.size(), false) {
    for (const Node& node : program.nodes) {
      is_weight_[size_t(node.id)] = node.leaf()
                                        ? node.kind == NodeKind::parameter
                                        : !node.inputs.empty() && std::ranges::all_of(node.inputs, [&](NodeId input) {
                                            return bool(is_weight_[size_t(input)]);
                                          });
    }
  }

  WeightColumns run() {
    for (const Node& node : program_.nodes)
      if (is_product(node) && node.phase == Phase::forward) add_sum(node);
    for (const Node& node : program_.nodes)
      if (is_product(node) && node.phase == Phase::backward && !uses_.contains(node.id)) add_gradient(node);
    return numbered();
  }

 private:
  int weight_of(const Node& node) const {
    const bool first = is_weight_[size_t(node.inputs[0])], second = is_weight_[size_t(node.inputs[1])];
    return first == second ? -1 : second ? 1 : 0;
  }

  int dimension(const Node& node, int input, int factor) const {
    return dimension_of(node, program_[node.inputs[size_t(input)]].type.shape, node.space.inputs[size_t(input)],
                        factor);
  }

  /// A product of an activation and a weight.
  void add_sum(const Node& node) {
    const int weight = weight_of(node);
    if (weight < 0) return;
    int longest = -1;
    for (int factor = 0; factor < int(node.space.factors.size()); ++factor) {
      const Factor& f = node.space.factors[size_t(factor)];
      const bool is_column = f.reduced() && dimension(node, 0, factor) >= 0 && dimension(node, 1, factor) >= 0;
      if (is_column && (longest < 0 || f.size > node.space.factors[size_t(longest)].size)) longest = factor;
    }
    if (longest < 0) return;
    const auto columns = [&](int input) {
      return Columns{node.inputs[size_t(input)], dimension(node, input, longest)};
    };
    sets_.try_emplace(columns(0), columns(0));
    sets_.try_emplace(columns(1), columns(1));
    sets_[set_of(columns(0))] = set_of(columns(1));
    uses_[node.id] = {longest, 0, weight, true};
    read_[node.id] = columns(weight);
  }

  /// A product of which an operand has columns that some other product sums over: of weights sooner than of
  /// activations.
  void add_gradient(const Node& node) {
    const int weight = weight_of(node);
    for (const int input : {weight < 0 ? 0 : weight, weight < 0 ? 1 : 1 - weight})
      for (int factor = 0; factor < int(node.space.factors.size()); ++factor) {
        const int dim = dimension(node, input, factor);
        const Columns columns{node.inputs[size_t(input)], dim};
        if (dim < 0 || !sets_.contains(columns)) continue;
        uses_[node.id] = {factor, 0, weight, false};
        read_[node.id] = columns;
        return;
      }
  }

  Columns set_of(Columns columns) {
    while (sets_.at(columns) != columns) columns = sets_.at(columns);
    return columns;
  }

  WeightColumns numbered() {
    WeightColumns out;
    std::map<Columns, int> numbers;
    for (auto& [node, use] : uses_) {
      const auto [at, is_new] = numbers.try_emplace(set_of(read_.at(node)), int(out.extents.size()));
      if (is_new) out.extents.push_back(program_[node].space.factors[size_t(use.factor)].size);
      use.set = at->second;
    }
    out.uses = std::move(uses_);
    return out;
  }

  const Program& program_;
  std::vector<bool> is_weight_;      ///< made of parameters alone
  std::map<Columns, Columns> sets_;  ///< a forest: dimensions whose columns are those of another
  std::map<NodeId, ColumnUse> uses_;
  std::map<NodeId, Columns> read_;  ///< by product: columns that it reads
};

}  // namespace

WeightColumns weight_columns(const Program& program) { return Finder(program).run(); }

}  // namespace hetsynth
