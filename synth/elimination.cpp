#include "synth/elimination.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "dsl/base/error.h"

namespace hetsynth::synth {
namespace {

/// Walks over all assignments of some variables, keeping the offset into every function's table up to date.
class Odometer {
 public:
  Odometer(const std::vector<int>& variables, const std::vector<int>& sizes, const std::vector<CostFunction>& functions,
           const std::vector<int>& domain_sizes)
      : sizes_(sizes), digits_(sizes.size(), 0), offsets_(functions.size(), 0), strides_(sizes.size()) {
    for (size_t d = 0; d < variables.size(); ++d)
      for (const CostFunction& f : functions) {
        size_t stride = 0, step = 1;
        for (size_t s = f.scope.size(); s-- > 0; step *= domain_sizes[f.scope[s]])
          if (f.scope[s] == variables[d]) stride = step;
        strides_[d].push_back(stride);
      }
  }
  const std::vector<size_t>& offsets() const { return offsets_; }
  void advance() {
    for (size_t d = sizes_.size(); d-- > 0;) {
      bool carry = ++digits_[d] == sizes_[d];
      if (carry) digits_[d] = 0;
      for (size_t f = 0; f < offsets_.size(); ++f) {
        if (carry)
          offsets_[f] -= strides_[d][f] * (sizes_[d] - 1);
        else
          offsets_[f] += strides_[d][f];
      }
      if (!carry) return;
    }
  }

 private:
  std::vector<int> sizes_, digits_;
  std::vector<size_t> offsets_;
  std::vector<std::vector<size_t>> strides_;
};

/// The order: always the variable with the smallest joint table, of equals the one with fewest neighbours, then the
/// first.
class EliminationOrder {
 public:
  explicit EliminationOrder(const Network& network) : neighbours_(network.variable_count()) {
    for (int v = 0; v < network.variable_count(); ++v) sizes_.push_back(network.domain(v));
    for (const auto& [ends, table] : network.pairs()) {
      if (sizes_[ends.first] < 2 || sizes_[ends.second] < 2) continue;
      neighbours_[ends.first].insert(ends.second);
      neighbours_[ends.second].insert(ends.first);
    }
    for (int v = 0; v < network.variable_count(); ++v) queue_.insert(key(v));
  }
  bool empty() const { return queue_.empty(); }
  double next_size() const { return std::get<0>(*queue_.begin()); }
  /// Removes the next variable and joins its neighbours.
  int pop() {
    int v = std::get<2>(*queue_.begin());
    queue_.erase(queue_.begin());
    const std::set<int>& joined = neighbours_[v];
    for (int u : joined) queue_.erase(key(u));
    for (int u : joined) {
      neighbours_[u].insert(joined.begin(), joined.end());
      neighbours_[u].erase(u);
      neighbours_[u].erase(v);
    }
    for (int u : joined) queue_.insert(key(u));
    return v;
  }

 private:
  std::tuple<double, size_t, int> key(int v) const {
    double size = sizes_[v];
    for (int u : neighbours_[v]) size *= sizes_[u];
    return {size, neighbours_[v].size(), v};
  }
  std::vector<int> sizes_;
  std::vector<std::set<int>> neighbours_;
  std::set<std::tuple<double, size_t, int>> queue_;
};

class Eliminator {
 public:
  Eliminator(const Network& network, TableStore* store, double limit)
      : store_(store), limit_(limit), order_(network), touching_(network.variable_count()) {
    for (int v = 0; v < network.variable_count(); ++v) sizes_.push_back(network.domain(v));
    std::vector<std::vector<Picoseconds>> unary;
    for (int v = 0; v < network.variable_count(); ++v) unary.push_back(network.unary(v));
    for (const auto& [ends, table] : network.pairs()) {
      auto [a, b] = ends;
      if (sizes_[a] > 1 && sizes_[b] > 1) {
        add_function({{a, b}, normalise(table)});
        continue;
      }
      auto& remaining = unary[sizes_[a] > 1 ? a : b];
      for (size_t x = 0; x < remaining.size(); ++x) remaining[x] = add(remaining[x], table[x]);
    }
    for (int v = 0; v < network.variable_count(); ++v) add_function({{v}, normalise(std::move(unary[v]))});
  }

  Elimination run() {
    if (std::find(sizes_.begin(), sizes_.end(), 0) != sizes_.end()) out_.constant = forbidden;
    while (!order_.empty() && out_.constant < forbidden) {
      double size = order_.next_size();
      out_.largest_table = std::max(out_.largest_table, size);
      eliminate_variable(order_.pop(), size);
    }
    return std::move(out_);
  }

 private:
  /// Moves the smallest entry into the constant.
  int normalise(std::vector<Picoseconds> table) {
    Picoseconds least = table.empty() ? 0 : *std::min_element(table.begin(), table.end());
    out_.constant = add(out_.constant, least);
    if (least >= forbidden) least = 0;
    for (Picoseconds& cost : table)
      if (cost < forbidden) cost -= least;
    return store_->intern(std::move(table));
  }

  void add_function(CostFunction function) {
    for (int v : function.scope) touching_[v].insert(int(functions_.size()));
    functions_.push_back(std::move(function));
  }

  void eliminate_variable(int v, double size) {
    Bucket bucket;
    bucket.variable = v;
    for (int id : touching_[v]) bucket.functions.push_back(functions_[id]);
    for (int id : std::set<int>(touching_[v]))
      for (int u : functions_[id].scope) touching_[u].erase(id);
    std::vector<std::vector<CostFunction>> groups{bucket.functions};
    if (size > limit_) groups = mini_buckets(bucket.functions), out_.exact = false;
    for (const auto& group : groups) {
      CostFunction message = reduce(v, group, &bucket.shift);
      if (message.scope.empty()) continue;
      bucket.messages.push_back(message);
      add_function(std::move(message));
    }
    out_.buckets.push_back(std::move(bucket));
  }

  /// First fit in order of falling size, so that every group's joint table stays below the limit.
  std::vector<std::vector<CostFunction>> mini_buckets(std::vector<CostFunction> functions) const {
    std::sort(functions.begin(), functions.end(), [&](auto& a, auto& b) {
      return std::tuple(-scope_size(a.scope), a.scope, a.table) < std::tuple(-scope_size(b.scope), b.scope, b.table);
    });
    std::vector<std::vector<CostFunction>> groups;
    std::vector<std::set<int>> scopes;
    for (CostFunction& f : functions) {
      size_t g = 0;
      for (; g < groups.size(); ++g) {
        std::set<int> merged = scopes[g];
        merged.insert(f.scope.begin(), f.scope.end());
        if (scope_size(merged) <= limit_) {
          scopes[g] = std::move(merged);
          break;
        }
      }
      if (g == groups.size()) {
        groups.emplace_back();
        scopes.emplace_back(f.scope.begin(), f.scope.end());
      }
      groups[g].push_back(std::move(f));
    }
    return groups;
  }

  double scope_size(const auto& scope) const {
    double size = 1;
    for (int v : scope) size *= sizes_[v];
    return size;
  }

  /// Minimum over v of the group's sum, as a function of the others; its smallest entry goes into the constant.
  CostFunction reduce(int v, const std::vector<CostFunction>& group, Picoseconds* shift) {
    std::set<int> others;
    for (const CostFunction& f : group) others.insert(f.scope.begin(), f.scope.end());
    others.erase(v);
    std::vector<int> scope(others.begin(), others.end());
    auto [it, fresh] = memo_.try_emplace(key(v, scope, group));
    if (fresh) {
      std::vector<Picoseconds> table = minimum(v, scope, group);
      it->second.least = *std::min_element(table.begin(), table.end());
      Picoseconds before = out_.constant;
      it->second.table = normalise(std::move(table));
      out_.constant = before;
    } else {
      ++out_.reused;
    }
    out_.constant = add(out_.constant, it->second.least);
    *shift += it->second.least;
    return {scope, it->second.table};
  }

  /// Sizes and tables up to the names of the variables.
  std::vector<int> key(int v, const std::vector<int>& scope, const std::vector<CostFunction>& group) const {
    std::vector<int> key{sizes_[v], int(scope.size())};
    for (int u : scope) key.push_back(sizes_[u]);
    std::vector<std::vector<int>> parts;
    for (const CostFunction& f : group) {
      std::vector<int> part{f.table};
      for (int u : f.scope)
        part.push_back(u == v ? -1 : int(std::lower_bound(scope.begin(), scope.end(), u) - scope.begin()));
      parts.push_back(std::move(part));
    }
    std::sort(parts.begin(), parts.end());
    for (const auto& part : parts) {
      key.push_back(int(part.size()));
      key.insert(key.end(), part.begin(), part.end());
    }
    return key;
  }

  std::vector<Picoseconds> minimum(int v, const std::vector<int>& scope, const std::vector<CostFunction>& group) const {
    std::vector<int> variables = scope, sizes;
    variables.push_back(v);
    for (int u : variables) sizes.push_back(sizes_[u]);
    std::vector<const Picoseconds*> tables;
    for (const CostFunction& f : group) tables.push_back((*store_)[f.table].data());
    Odometer odometer(variables, sizes, group, sizes_);
    std::vector<Picoseconds> out(size_t(scope_size(scope)), forbidden);
    for (Picoseconds& best : out)
      for (int value = 0; value < sizes_[v]; ++value, odometer.advance()) {
        Picoseconds sum = 0;
        for (size_t f = 0; f < tables.size(); ++f) sum = add(sum, tables[f][odometer.offsets()[f]]);
        best = std::min(best, sum);
      }
    return out;
  }

  struct Reduced {
    int table = -1;
    Picoseconds least = 0;
  };

  TableStore* store_;
  double limit_;
  EliminationOrder order_;
  std::vector<int> sizes_;
  std::vector<CostFunction> functions_;
  std::vector<std::set<int>> touching_;  ///< functions that mention a variable and are in no bucket yet
  std::map<std::vector<int>, Reduced> memo_;
  Elimination out_;
};

}  // namespace

double elimination_size(const Network& network) {
  double largest = 0;
  for (EliminationOrder order(network); !order.empty(); order.pop()) largest = std::max(largest, order.next_size());
  return largest;
}

Elimination eliminate(const Network& network, TableStore* store, double table_limit) {
  return Eliminator(network, store, table_limit).run();
}

}  // namespace hetsynth::synth
