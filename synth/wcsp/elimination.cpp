#include "synth/wcsp/elimination.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "dsl/base/error.h"
#include "synth/wcsp/bucket_table.h"

namespace hetsynth::synth {
namespace {

class Eliminator {
 public:
  Eliminator(const Network& network, const EliminationOrder& order, double limit, const StopToken& stop)
      : store_(network.store()), order_(order), limit_(limit), stop_(stop), touching_(network.variable_count()) {
    for (int v = 0; v < network.variable_count(); ++v) sizes_.push_back(network.domain(v));
    std::vector<int> unary;
    for (int v = 0; v < network.variable_count(); ++v) unary.push_back(network.unary_table(v));
    for (const Network::Pair& pair : network.pairs()) {
      if (sizes_[pair.a] > 1 && sizes_[pair.b] > 1)
        add_function({{pair.a, pair.b}, normalise(pair.table)});
      else  // a pair with a variable of one value is a cost of the other
        unary[sizes_[pair.a] > 1 ? pair.a : pair.b] =
            store_.sum(unary[sizes_[pair.a] > 1 ? pair.a : pair.b], pair.table);
    }
    for (int v = 0; v < network.variable_count(); ++v) add_function({{v}, normalise(unary[v])});
  }

  Elimination run() {
    if (std::find(sizes_.begin(), sizes_.end(), 0) != sizes_.end()) out_.constant = forbidden;
    out_.buckets.reserve(sizes_.size());
    for (size_t i = 0; i < order_.variables.size() && out_.complete && out_.constant < forbidden; ++i) {
      if (i % 256 == 255 && stop_.stopped()) out_.complete = false;
      eliminate_variable(order_.variables[i], order_.sizes[i]);
    }
    return std::move(out_);
  }

 private:
  struct Reduced {
    int table = -1;
    Picoseconds least = 0;
  };

  /// Moves the smallest entry into the constant.
  int normalise(int table) {
    auto [it, fresh] = normal_.try_emplace(table);
    if (fresh) it->second = normal(Table(store_[table]));
    out_.constant = add(out_.constant, it->second.least);
    return it->second.table;
  }

  Reduced normal(Table table) {
    Picoseconds least = table.empty() ? 0 : *std::min_element(table.begin(), table.end());
    if (least < forbidden)
      for (Picoseconds& cost : table)
        if (cost < forbidden) cost -= least;
    return {store_.intern(std::move(table)), least};
  }

  void add_function(CostFunction function) {
    for (int v : function.scope) touching_[v].push_back(int(functions_.size()));
    functions_.push_back(std::move(function));
    used_.push_back(0);
  }

  void eliminate_variable(int v, double size) {
    Bucket bucket;
    bucket.variable = v;
    for (int id : touching_[v]) {
      if (used_[id]) continue;
      used_[id] = 1;
      bucket.functions.push_back(functions_[id]);
    }
    if (size <= limit_) {
      eliminate_group(v, bucket.functions, &bucket);
    } else {
      out_.exact = false;
      for (const auto& group : mini_buckets(bucket.functions)) eliminate_group(v, group, &bucket);
    }
    out_.buckets.push_back(std::move(bucket));
  }

  void eliminate_group(int v, const std::vector<CostFunction>& group, Bucket* bucket) {
    CostFunction message = reduce(v, group, &bucket->shift);
    if (message.scope.empty()) return;
    bucket->messages.push_back(message);
    add_function(std::move(message));
  }

  /// First fit in order of falling size, so that every group's joint table stays below the limit.
  std::vector<std::vector<CostFunction>> mini_buckets(std::vector<CostFunction> functions) const {
    std::sort(functions.begin(), functions.end(), [&](auto& a, auto& b) {
      return std::tuple(-scope_size(a.scope), a.scope, a.table) < std::tuple(-scope_size(b.scope), b.scope, b.table);
    });
    std::vector<std::vector<CostFunction>> groups;
    std::vector<std::vector<int>> scopes;
    for (CostFunction& f : functions) {
      size_t g = 0;
      for (; g < groups.size(); ++g) {
        std::vector<int> merged;
        std::set_union(scopes[g].begin(), scopes[g].end(), f.scope.begin(), f.scope.end(), std::back_inserter(merged));
        if (scope_size(merged) <= limit_) {
          scopes[g] = std::move(merged);
          break;
        }
      }
      if (g == groups.size()) {
        groups.emplace_back();
        scopes.push_back(f.scope);
      }
      groups[g].push_back(std::move(f));
    }
    return groups;
  }

  double scope_size(const std::vector<int>& scope) const {
    double size = 1;
    for (int v : scope) size *= sizes_[v];
    return size;
  }

  /// Minimum over v of the group's sum, as a function of the others; its smallest entry goes into the constant.
  CostFunction reduce(int v, const std::vector<CostFunction>& group, Picoseconds* shift) {
    std::vector<int> scope;
    for (const CostFunction& f : group)
      for (int u : f.scope)
        if (u != v) scope.push_back(u);
    std::sort(scope.begin(), scope.end());
    scope.erase(std::unique(scope.begin(), scope.end()), scope.end());
    auto [it, fresh] = memo_.try_emplace(key(v, scope, group));
    if (fresh)
      it->second = minimum(v, scope, group);
    else
      ++out_.reused;
    out_.constant = add(out_.constant, it->second.least);
    *shift += it->second.least;
    return {std::move(scope), it->second.table};
  }

  /// Sizes and tables up to the names of the variables.
  std::vector<int> key(int v, const std::vector<int>& scope, const std::vector<CostFunction>& group) const {
    std::vector<int> key{sizes_[v], int(scope.size())};
    for (int u : scope) key.push_back(sizes_[u]);
    for (const CostFunction& f : group) {
      key.push_back(f.table);
      key.push_back(-int(f.scope.size()));
      for (int u : f.scope)
        key.push_back(u == v ? -1 : int(std::lower_bound(scope.begin(), scope.end(), u) - scope.begin()));
    }
    return key;
  }

  Reduced minimum(int v, const std::vector<int>& scope, const std::vector<CostFunction>& group) {
    Table table;
    if (!minimum_of_sum(v, scope, group, sizes_, store_, stop_, &table)) out_.complete = false;
    return normal(std::move(table));
  }

  TableStore& store_;
  const EliminationOrder& order_;
  double limit_;
  const StopToken& stop_;
  std::vector<int> sizes_;
  std::vector<CostFunction> functions_;
  std::vector<char> used_;                  ///< by function: in a bucket
  std::vector<std::vector<int>> touching_;  ///< functions that mention a variable, those in buckets included
  std::unordered_map<std::vector<int>, Reduced, SequenceHash> memo_;
  std::unordered_map<int, Reduced> normal_;  ///< by table
  Elimination out_;
};

}  // namespace

Elimination eliminate(const Network& network, const EliminationOrder& order, double table_limit,
                      const StopToken& stop) {
  return Eliminator(network, order, table_limit, stop).run();
}

}  // namespace hetsynth::synth
