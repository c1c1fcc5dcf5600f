#include "synth/elimination_order.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>

namespace hetsynth::synth {
namespace {

/// Joint tables beyond this size are all alike: too large.
constexpr double endless = 1e60;

class Ordering {
 public:
  explicit Ordering(const Network& network) : neighbours_(network.variable_count()), version_(neighbours_.size(), 0) {
    for (int v = 0; v < network.variable_count(); ++v) {
      sizes_.push_back(network.domain(v));
      neighbours_[v].reserve(network.ends(v).size());
    }
    for (const Network::Pair& pair : network.pairs()) {
      if (sizes_[pair.a] < 2 || sizes_[pair.b] < 2) continue;
      neighbours_[pair.a].push_back(pair.b);
      neighbours_[pair.b].push_back(pair.a);
    }
    for (auto& list : neighbours_) std::sort(list.begin(), list.end());
    std::vector<Entry> entries;
    entries.reserve(2 * neighbours_.size());
    for (int v = 0; v < network.variable_count(); ++v) entries.push_back(entry(v));
    queue_ = std::priority_queue<Entry>(std::less<Entry>(), std::move(entries));
  }

  EliminationOrder run(double limit) {
    EliminationOrder out;
    while (!queue_.empty()) {
      Entry next = queue_.top();
      queue_.pop();
      if (next.version != version_[next.variable]) continue;
      out.variables.push_back(next.variable);
      out.sizes.push_back(next.size);
      out.largest = std::max(out.largest, next.size);
      if (out.largest > limit) break;
      remove(next.variable);
    }
    return out;
  }

 private:
  struct Entry {
    double size;
    size_t degree;
    int variable;
    int version;
    bool operator<(const Entry& other) const {  // the greatest comes first out of the queue
      return std::tuple(size, degree, variable) > std::tuple(other.size, other.degree, other.variable);
    }
  };

  /// As it stands; those before count no more.
  Entry entry(int v) {
    double size = sizes_[v];
    for (int u : neighbours_[v])
      if ((size *= sizes_[u]) > endless) break;
    return {std::min(size, endless), neighbours_[v].size(), v, ++version_[v]};
  }

  /// Takes v out and joins its neighbours.
  void remove(int v) {
    version_[v] = -1;
    const std::vector<int> joined = std::move(neighbours_[v]);
    for (int u : joined) {
      merged_.clear();
      std::set_union(neighbours_[u].begin(), neighbours_[u].end(), joined.begin(), joined.end(),
                     std::back_inserter(merged_));
      std::erase_if(merged_, [&](int w) { return w == u || w == v; });
      neighbours_[u].swap(merged_);
    }
    for (int u : joined) queue_.push(entry(u));
  }

  std::vector<int> sizes_;
  std::vector<std::vector<int>> neighbours_;
  std::vector<int> version_;
  std::vector<int> merged_;
  std::priority_queue<Entry> queue_;
};

}  // namespace

EliminationOrder elimination_order(const Network& network, double limit) { return Ordering(network).run(limit); }

}  // namespace hetsynth::synth
