// Conversion trees: the cheapest instructions that make a set of forms of one tensor out of the form it is computed in.
#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "synth/model/cost.h"
#include "synth/space/analysis.h"

namespace hetsynth::synth {

/// All conversions of one kind of tensor (shape, element type, classes of its dimensions), with exact costs of every
/// tree.
class ConversionTable {
 public:
  using Edge = std::function<Conversion(NodeId node, const Form& from, const Form& to)>;
  ConversionTable(NodeId node, const std::vector<Form>& forms, const Edge& edge);

  const Conversion& edge(int from, int to) const { return edges_[from * forms_ + to]; }
  /// Most forms in which consumers read one tensor, the one it is computed in included. On one axis as many as it has.
  /// On two axes it has too many for all their sets to be searched: three of a tensor with two dimensions, else two.
  int most_targets() const;
  /// Cost of materialising all forms of `targets` from `source`: a minimum directed Steiner tree (Dreyfus and Wagner
  /// 1971).
  Picoseconds tree_cost(int source, FormMask targets) const {
    return targets == 0 ? 0 : tree_costs(targets)[size_t(source)];
  }
  /// The same by source; some targets.
  const std::vector<Picoseconds>& tree_costs(FormMask targets) const { return trees(targets).cost; }
  /// Its instructions as (from, to), parents first.
  std::vector<std::pair<int, int>> tree(int source, FormMask targets) const;
  /// The cheapest set of at most `most_targets` forms that holds one of each need; of equals the smallest. Cost in
  /// `*cost`.
  FormMask best_set(int source, const std::vector<FormMask>& needs, Picoseconds* cost) const;

 private:
  /// What a tree does first: go to `at`, there split the targets into `part` and the rest (no part: it is done).
  struct Step {
    int at = -1;
    FormMask part = 0;
  };
  /// Of one set of targets, by source.
  struct Trees {
    std::vector<Picoseconds> cost;
    std::vector<Step> steps;
  };
  void find_paths();
  Picoseconds distance(int from, int to) const { return distance_[from * forms_ + to]; }
  const Trees& trees(FormMask targets) const;
  Trees solve(FormMask targets) const;
  void try_set(int source, FormMask set, const std::vector<FormMask>& needs, FormMask* best, Picoseconds* cost) const;
  void append_tree(int source, FormMask targets, std::vector<std::pair<int, int>>* out) const;

  int forms_;
  std::vector<Conversion> edges_;
  std::vector<Picoseconds> distance_;     ///< [from][to], over any number of conversions
  std::vector<Picoseconds> distance_to_;  ///< the same by [to][from]
  std::vector<int> next_;                 ///< the first stop on the way
  // Worked out when first asked for: of few forms by set, else by hash.
  mutable std::vector<std::unique_ptr<Trees>> trees_of_few_;
  mutable std::unordered_map<FormMask, Trees> trees_;
};

/// Whether a set of forms serves all needs.
inline bool serves(FormMask set, const std::vector<FormMask>& needs) {
  return std::ranges::all_of(needs, [&](FormMask need) { return (need & set) != 0; });
}

/// Conversion tables of all tensors, one per kind.
class Conversions {
 public:
  Conversions(const Analysis& analysis, const CostModel& cost, const Shares& shares);
  /// At other costs than those of any shares.
  Conversions(const Analysis& analysis, const ConversionTable::Edge& edge);
  const ConversionTable& of(NodeId node) const { return tables_[analysis_.tensor_kind[node]]; }
  /// Equal for tensors whose conversions are the same.
  int kind_of(NodeId node) const { return analysis_.tensor_kind[node]; }

 private:
  const Analysis& analysis_;
  std::vector<ConversionTable> tables_;
};

}  // namespace hetsynth::synth
