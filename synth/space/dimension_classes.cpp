#include "synth/space/dimension_classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "synth/support/parameters.h"

namespace hetsynth::synth {
namespace {

/// Union-find whose sets carry the greatest common divisor of their members' sizes.
class Ties {
 public:
  int add(int64_t size) {
    parent_.push_back(int(parent_.size()));
    granules_.push_back(size);
    return parent_.back();
  }
  int find(int x) {
    while (parent_[x] != x) x = parent_[x] = parent_[parent_[x]];
    return x;
  }
  int64_t granules(int x) { return granules_[find(x)]; }
  int count() const { return int(parent_.size()); }
  /// Unites all of them unless the union would have fewer granules than `least`, and than some of them has.
  bool unite(const std::vector<int>& members, int64_t least = 2) {
    int64_t common = 0;
    for (int m : members) common = std::gcd(common, granules(m));
    if (common <= 1) return false;
    if (common < least && std::ranges::any_of(members, [&](int m) { return granules(m) > common; })) return false;
    int root = find(members[0]);
    for (int m : members) parent_[find(m)] = root = std::min(root, find(m));
    for (int m : members) parent_[find(m)] = root;
    granules_[root] = common;
    return true;
  }

 private:
  std::vector<int> parent_;
  std::vector<int64_t> granules_;
};

class Builder {
 public:
  Builder(const Program& program, const std::vector<int>& kinds, bool windows)
      : program_(program), kinds_(kinds), windows_(windows) {
    for (const Node& node : program.nodes) {
      std::vector<int> dims;
      for (int64_t extent : node.type.shape) dims.push_back(ties_.add(extent));
      dims_.push_back(dims);
      factors_.push_back(std::vector<int>(node.space.factors.size(), -1));
    }
    for (const Node& node : program.nodes)
      if (!node.leaf()) tie_factors(node);
    for (const Update& update : program.updates)
      for (size_t d = 0; d < dims_[update.target].size(); ++d)
        ties_.unite({dims_[update.target][d], dims_[update.value][d]});
    for (const TurnLoop& loop : program.loops)
      for (const TurnLoop::Carry& c : loop.carries)
        for (size_t d = 0; d < dims_[c.carry].size(); ++d) ties_.unite({dims_[c.carry][d], dims_[c.next][d]});
    for (const Node& node : program.nodes) tie_windows(node);
    colour();
  }

  DimensionClasses result() {
    DimensionClasses out;
    auto class_of = [&](int element, const Node& node, const std::string& part) {
      if (element < 0 || ties_.granules(element) <= 1) return -1;
      auto [it, fresh] =
          number_.try_emplace({colour_[ties_.find(element)], ties_.granules(element)}, int(out.classes.size()));
      if (fresh) out.classes.push_back({fmt::format("{}.{}", node.name, part), ties_.granules(element)});
      return it->second;
    };
    out.dims.resize(dims_.size());
    for (bool leaves : {true, false})  // leaves first: their names are the ones a user knows
      for (const Node& node : program_.nodes) {
        if (node.leaf() != leaves) continue;
        for (size_t d = 0; d < dims_[node.id].size(); ++d)
          out.dims[node.id].push_back(class_of(dims_[node.id][d], node, std::to_string(d)));
      }
    for (const Node& node : program_.nodes) {
      out.factors.emplace_back();
      for (size_t f = 0; f < factors_[node.id].size(); ++f)
        out.factors.back().push_back(class_of(factors_[node.id][f], node, node.space.factors[f].name));
    }
    return out;
  }

 private:
  /// What a split of one factor ties together: the result's dimension and the operands', where it cuts them.
  struct Tie {
    int factor;
    int output = -1;
    std::vector<std::pair<int, int>> inputs;   ///< operand, dimension
    std::vector<std::pair<int, int>> windows;  ///< the same, where they are read through windows
  };

  std::vector<Tie> ties_of(const Node& node) const {
    std::vector<Tie> ties;
    for (size_t f = 0; f < node.space.factors.size(); ++f) {
      const Factor& factor = node.space.factors[f];
      if (factor.size <= 1 || factor.kind == FactorKind::whole) continue;
      auto output_cut = cut_of(node.space, node.space.output, node.type.shape, int(f));
      if (factor.kind == FactorKind::parallel && !output_cut) continue;
      Tie tie{int(f), output_cut ? output_cut->dim : -1, {}, {}};
      for (size_t j = 0; j < node.inputs.size(); ++j) {
        const Shape& shape = program_[node.inputs[j]].type.shape;
        if (auto cut = cut_of(node.space, node.space.inputs[j], shape, int(f)))
          tie.inputs.push_back({int(j), cut->dim});
        else if (auto slid = window_cut_of(node.space, node.space.inputs[j], shape, int(f)); windows_ && slid)
          tie.windows.push_back({int(j), slid->dim});
      }
      ties.push_back(std::move(tie));
    }
    return ties;
  }

  void tie_factors(const Node& node) {
    auto [it, fresh] = ties_of_kind_.try_emplace(kinds_[node.id]);
    if (fresh) it->second = ties_of(node);
    for (const Tie& tie : it->second) {
      std::vector<int> members{ties_.add(node.space.factors[tie.factor].size)};
      if (tie.output >= 0) members.push_back(dims_[node.id][tie.output]);
      for (auto [operand, dim] : tie.inputs) members.push_back(dims_[node.inputs[operand]][dim]);
      if (ties_.unite(members)) factors_[node.id][tie.factor] = members[0];
    }
  }

  /// Once all else is tied: what it costs in granules is known then.
  void tie_windows(const Node& node) {
    const auto found = ties_of_kind_.find(kinds_[node.id]);
    if (node.leaf() || found == ties_of_kind_.end()) return;
    for (const Tie& tie : found->second) {
      const int factor = factors_[node.id][tie.factor];
      for (auto [operand, dim] : tie.windows)
        if (factor >= 0) ties_.unite({factor, dims_[node.inputs[operand]][dim]}, least_granules_by_windows);
    }
  }

  /// Colour refinement: sets of elements have one colour if they have as many granules and occur equally often in every
  /// place of every kind of operation, beside sets of equal colours. A colour is a hash; sets of equally many
  /// granules that share one by accident merely share a table that fits both.
  void colour() {
    colour_.resize(ties_.count());
    for (int x = 0; x < ties_.count(); ++x) colour_[x] = uint64_t(ties_.granules(x));
    for (int round = 0; round < colour_rounds; ++round) {
      std::vector<uint64_t> occurrences(colour_.size(), 0);
      for (const Node& node : program_.nodes) {
        uint64_t place = mixed(uint64_t(kinds_[node.id]), uint64_t(node.phase));
        for (const auto* elements : {&dims_[node.id], &factors_[node.id]})
          for (int x : *elements) place = mixed(place, x < 0 ? 0 : colour_[ties_.find(x)]);
        for (const auto* elements : {&dims_[node.id], &factors_[node.id]})
          for (int x : *elements) {
            place = mixed(place, 1);
            if (x >= 0) occurrences[ties_.find(x)] += place;
          }
      }
      for (int x = 0; x < ties_.count(); ++x)
        colour_[x] = mixed(mixed(colour_[x], occurrences[x]), uint64_t(ties_.granules(x)));
    }
  }

  static uint64_t mixed(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0xff51afd7ed558ccdull + 0x9e3779b97f4a7c15ull;
    return hash ^ hash >> 32;
  }

  static constexpr int colour_rounds = 3;
  const Program& program_;
  const std::vector<int>& kinds_;
  const bool windows_;
  Ties ties_;
  std::vector<std::vector<int>> dims_, factors_;
  std::map<int, std::vector<Tie>> ties_of_kind_;
  std::vector<uint64_t> colour_;                        ///< of the sets' representatives
  std::map<std::pair<uint64_t, int64_t>, int> number_;  ///< by colour and granules
};

}  // namespace

DimensionClasses dimension_classes(const Program& program, const std::vector<int>& kinds, bool windows) {
  return Builder(program, kinds, windows).result();
}

int samples_class(const Program& program, const DimensionClasses& classes) {
  for (const Node& node : program.nodes) {
    if (node.kind != NodeKind::input) continue;
    const size_t samples = node.micro_batch.turns > 1 ? 1 : 0;  // dimension 0 numbers turns
    if (node.type.shape.size() > samples && classes.dims[node.id][samples] >= 0) return classes.dims[node.id][samples];
  }
  return -1;
}

}  // namespace hetsynth::synth
