// Conversion trees: the cheapest instructions that make a set of forms of one tensor out of the form it is computed in.
#pragma once
#include <utility>
#include <vector>

#include "synth/analysis.h"
#include "synth/cost.h"

namespace hetsynth::synth {

/// All conversions of one kind of tensor (shape, element type, classes of its dimensions), with exact costs of every
/// tree.
class ConversionTable {
 public:
  ConversionTable(const CostModel& cost, NodeId node, const std::vector<Form>& forms, const Shares& shares);

  int form_count() const { return forms_; }
  const Conversion& edge(int from, int to) const { return edges_[from * forms_ + to]; }
  /// Cost of materialising all forms of `targets` from `source`: a minimum directed Steiner tree (Dreyfus and Wagner
  /// 1971).
  Picoseconds tree_cost(int source, FormMask targets) const { return cost_[size_t(targets) * forms_ + source]; }
  /// Its instructions as (from, to), parents first.
  std::vector<std::pair<int, int>> tree(int source, FormMask targets) const;
  /// The cheapest set out of `source` that holds a form of each need; of equals the smallest. Cost in `*cost`.
  FormMask best_set(int source, const std::vector<FormMask>& needs, Picoseconds* cost) const;

 private:
  void solve();
  void append_tree(int source, FormMask targets, std::vector<std::pair<int, int>>* out) const;

  int forms_;
  std::vector<Conversion> edges_;
  struct Step {
    enum class Kind : uint8_t { none, split, edge } kind = Kind::none;
    FormMask part = 0;  ///< split: one side of the targets
    int to = -1;        ///< edge
  };
  std::vector<Picoseconds> cost_;  ///< [targets][source]
  std::vector<Step> steps_;
};

/// Conversion tables of all tensors, one per kind.
class Conversions {
 public:
  Conversions(const Analysis& analysis, const CostModel& cost, const Shares& shares);
  const ConversionTable& of(NodeId node) const { return tables_[analysis_.tensor_kind[node]]; }
  /// Equal for tensors whose conversions are the same.
  int kind_of(NodeId node) const { return analysis_.tensor_kind[node]; }

 private:
  const Analysis& analysis_;
  std::vector<ConversionTable> tables_;
};

}  // namespace hetsynth::synth
