#include "synth/classes.h"

#include <fmt/format.h>

#include <map>
#include <numeric>
#include <set>

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
  /// Unites all of them unless the union would have one granule only.
  bool unite(const std::vector<int>& members) {
    int64_t common = 0;
    for (int m : members) common = std::gcd(common, granules(m));
    if (common <= 1) return false;
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
  explicit Builder(const Program& program) : program_(program) {
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
  }

  DimensionClasses result() {
    DimensionClasses out;
    auto class_of = [&](int element, const std::string& name) {
      if (element < 0 || ties_.granules(element) <= 1) return -1;
      auto [it, fresh] = number_.try_emplace(ties_.find(element), int(out.classes.size()));
      if (fresh) out.classes.push_back({name, ties_.granules(element)});
      return it->second;
    };
    out.dims.resize(dims_.size());
    for (bool leaves : {true, false})  // leaves first: their names are the ones a user knows
      for (const Node& node : program_.nodes) {
        if (node.leaf() != leaves) continue;
        for (size_t d = 0; d < dims_[node.id].size(); ++d)
          out.dims[node.id].push_back(class_of(dims_[node.id][d], fmt::format("{}.{}", node.name, d)));
      }
    for (const Node& node : program_.nodes) {
      out.factors.emplace_back();
      for (size_t f = 0; f < factors_[node.id].size(); ++f)
        out.factors.back().push_back(
            class_of(factors_[node.id][f], fmt::format("{}.{}", node.name, node.space.factors[f].name)));
    }
    return out;
  }

 private:
  void tie_factors(const Node& node) {
    for (size_t f = 0; f < node.space.factors.size(); ++f) {
      const Factor& factor = node.space.factors[f];
      if (factor.size <= 1 || factor.kind == FactorKind::whole) continue;
      auto output_cut = cut_of(node.space, node.space.output, node.type.shape, int(f));
      if (factor.kind == FactorKind::parallel && !output_cut) continue;
      std::vector<int> members{ties_.add(factor.size)};
      if (output_cut) members.push_back(dims_[node.id][output_cut->dim]);
      for (size_t j = 0; j < node.inputs.size(); ++j) {
        const Node& input = program_[node.inputs[j]];
        if (auto cut = cut_of(node.space, node.space.inputs[j], input.type.shape, int(f)))
          members.push_back(dims_[input.id][cut->dim]);
      }
      if (ties_.unite(members)) factors_[node.id][f] = members[0];
    }
  }

  const Program& program_;
  Ties ties_;
  std::vector<std::vector<int>> dims_, factors_;
  std::map<int, int> number_;
};

}  // namespace

DimensionClasses dimension_classes(const Program& program) { return Builder(program).result(); }

}  // namespace hetsynth::synth
