#include "synth/wcsp/elimination_order.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <queue>
#include <span>
#include <tuple>

namespace hetsynth::synth {
namespace {

/// Joint tables beyond this size are all alike: too large.
constexpr double endless = 1e60;

class Ordering {
 public:
  explicit Ordering(const Network& network) : version_(size_t(network.variable_count()), 0) {
    for (int v = 0; v < network.variable_count(); ++v) sizes_.push_back(network.domain(v));
    all_.reserve(2 * network.pairs().size());
    for (int v = 0; v < network.variable_count(); ++v) {
      const size_t begin = all_.size();
      if (sizes_[size_t(v)] > 1)
        for (const Network::End& end : network.ends(v))
          if (sizes_[size_t(end.other)] > 1) all_.push_back(end.other);
      std::sort(all_.begin() + ptrdiff_t(begin), all_.end());
      lists_.push_back({begin, all_.size() - begin, all_.size() - begin});
    }
    std::vector<Entry> entries;
    entries.reserve(2 * lists_.size());
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

  /// Neighbours in rising order, within `all_`.
  struct List {
    size_t begin, count, room;
  };
  std::span<const int> neighbours(int v) const {
    return {all_.data() + lists_[size_t(v)].begin, lists_[size_t(v)].count};
  }

  /// In the place of the old ones, or behind all others.
  void replace_neighbours(int v, const std::vector<int>& by) {
    List& list = lists_[size_t(v)];
    list.count = by.size();
    if (by.size() > list.room) {
      list.begin = all_.size();
      list.room = 2 * by.size();
      all_.resize(all_.size() + list.room);
    }
    std::copy(by.begin(), by.end(), all_.begin() + ptrdiff_t(list.begin));
  }

  /// As it stands; those before count no more.
  Entry entry(int v) {
    double size = sizes_[size_t(v)];
    for (int u : neighbours(v))
      if ((size *= sizes_[size_t(u)]) > endless) break;
    return {std::min(size, endless), neighbours(v).size(), v, ++version_[size_t(v)]};
  }

  /// Takes v out and joins its neighbours.
  void remove(int v) {
    version_[size_t(v)] = -1;
    joined_.assign(neighbours(v).begin(), neighbours(v).end());
    for (int u : joined_) {
      merged_.clear();
      std::ranges::set_union(neighbours(u), joined_, std::back_inserter(merged_));
      std::erase_if(merged_, [&](int w) { return w == u || w == v; });
      replace_neighbours(u, merged_);
    }
    for (int u : joined_) queue_.push(entry(u));
  }

  std::vector<int> sizes_;
  std::vector<List> lists_;  ///< by variable
  std::vector<int> all_;
  std::vector<int> version_;
  std::vector<int> joined_, merged_;
  std::priority_queue<Entry> queue_;
};

}  // namespace

EliminationOrder elimination_order(const Network& network, double limit) { return Ordering(network).run(limit); }

}  // namespace hetsynth::synth
