#include "synth/dead_ends.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace hetsynth::synth {
namespace {

class DeadEnds {
 public:
  DeadEnds(const Network& network, bool only_impossible)
      : network_(network), only_impossible_(only_impossible), pending_(network.variable_count(), 1) {
    std::unordered_map<int, int> allowed;  // by table: a list
    for (int v = 0; v < network.variable_count(); ++v) {
      const auto [it, fresh] = allowed.try_emplace(network.unary_table(v), -1);
      if (fresh) it->second = allowed_values(network.unary(v));
      alive_.push_back(it->second);
    }
  }

  NumberedLists run() {
    // Sweeps in turn forwards and backwards, so that what follows from a change follows within the sweep.
    for (bool forward = true, changed = true; changed; forward = !forward) {
      changed = false;
      int count = network_.variable_count();
      for (int k = 0; k < count; ++k) {
        int v = forward ? k : count - 1 - k;
        if (!pending_[v]) continue;
        pending_[v] = 0;
        int left = reduced(v);
        if (left == alive_[v]) continue;
        alive_[v] = left;
        changed = true;
        pending_[v] = 1;
        for (const Network::End& end : network_.ends(v)) pending_[end.other] = 1;
      }
    }
    return {std::move(lists_), std::move(alive_)};
  }

 private:
  int allowed_values(const Table& unary) {
    std::vector<int> values(unary.size());
    std::iota(values.begin(), values.end(), 0);
    std::erase_if(values, [&](int value) { return unary[size_t(value)] >= forbidden; });
    return lists_.number(std::move(values));
  }

  struct Neighbour {
    const Picoseconds* table;
    size_t own_stride, its_stride;
    const std::vector<int>* values;
  };

  /// The list of what is left of a variable's values.
  int reduced(int v) {
    if (lists_[alive_[v]].empty()) return alive_[v];
    key_.assign({network_.unary_table(v), alive_[v]});
    for (const Network::End& end : network_.ends(v)) {
      key_.push_back(network_.pairs()[end.pair].table * 2 + end.first);
      key_.push_back(alive_[end.other]);
    }
    int situation = situations_.number(key_);
    if (situation < int(answers_.size())) return answers_[situation];
    std::vector<Neighbour> neighbours;
    for (const Network::End& end : network_.ends(v)) {
      const Network::Pair& pair = network_.pairs()[end.pair];
      size_t columns = size_t(network_.domain(pair.b));
      neighbours.push_back(
          {network_.table(pair).data(), end.first ? columns : 1, end.first ? 1 : columns, &lists_[alive_[end.other]]});
    }
    answers_.push_back(lists_.number(only_impossible_ ? possible(neighbours, lists_[alive_[v]])
                                                      : undominated(network_.unary(v), neighbours, lists_[alive_[v]])));
    return answers_.back();
  }

  /// Values that each neighbour has a value for.
  static std::vector<int> possible(const std::vector<Neighbour>& neighbours, const std::vector<int>& values) {
    std::vector<int> left;
    for (int value : values) {
      auto allows = [&](const Neighbour& n) {
        return std::any_of(n.values->begin(), n.values->end(), [&](int u) {
          return n.table[size_t(value) * n.own_stride + size_t(u) * n.its_stride] < forbidden;
        });
      };
      if (std::all_of(neighbours.begin(), neighbours.end(), allows)) left.push_back(value);
    }
    return left;
  }

  /// A value, what it must cost beside its neighbours' cheapest values, and what more beside each of their values: the
  /// costs of neighbour after neighbour less the cheapest.
  struct Candidate {
    int value;
    Picoseconds total;
    std::vector<Picoseconds> more;
    bool alive = true;
  };

  static std::vector<int> undominated(const Table& unary, const std::vector<Neighbour>& neighbours,
                                      const std::vector<int>& values) {
    std::vector<Candidate> candidates;
    std::vector<size_t> ends;  // of the neighbours within `more`
    for (const Neighbour& n : neighbours) ends.push_back((ends.empty() ? 0 : ends.back()) + n.values->size());
    for (int value : values) {
      Candidate c{value, unary[value], {}};
      c.more.reserve(ends.empty() ? 0 : ends.back());
      for (const Neighbour& n : neighbours) {
        const Picoseconds* own = n.table + size_t(value) * n.own_stride;
        Picoseconds least = forbidden;
        for (int u : *n.values) least = std::min(least, own[size_t(u) * n.its_stride]);
        c.alive = c.alive && least < forbidden;
        if (!c.alive) break;
        c.total += least;
        for (int u : *n.values) {
          Picoseconds cost = own[size_t(u) * n.its_stride];
          c.more.push_back(cost >= forbidden ? forbidden : cost - least);
        }
      }
      if (c.alive) candidates.push_back(std::move(c));
    }
    // What dominates a value is no dearer beside the cheapest neighbours; of equals the first stays.
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& x, const Candidate& y) { return x.total < y.total; });
    for (size_t i = candidates.size(); i-- > 0;) {
      size_t witness = 0;
      for (size_t j = 0; j < candidates.size() && candidates[j].total <= candidates[i].total && candidates[i].alive;
           ++j)
        if (i != j && candidates[j].alive && dominates(ends, candidates[j], candidates[i], &witness))
          candidates[i].alive = false;
    }
    std::vector<int> left;
    for (const Candidate& c : candidates)
      if (c.alive) left.push_back(c.value);
    std::sort(left.begin(), left.end());
    return left;
  }

  /// The excess of b over a begins with its lower bound, the difference of the totals, and only grows from there.
  /// `witness`: where the last b was found too dear, and the next often is.
  static bool dominates(const std::vector<size_t>& ends, const Candidate& b, const Candidate& a, size_t* witness) {
    Picoseconds excess = b.total - a.total;
    if (*witness < a.more.size() && a.more[*witness] < forbidden && excess + b.more[*witness] - a.more[*witness] > 0)
      return false;
    size_t at = 0;
    for (size_t end : ends) {
      Picoseconds worst = 0;  // reached where a is cheapest
      for (; at < end; ++at) {
        // Beside what is forbidden to a anything goes.
        Picoseconds difference = a.more[at] >= forbidden ? 0 : b.more[at] - a.more[at];
        if (difference <= worst) continue;
        worst = difference;
        if (excess + worst > 0) {
          *witness = at;
          return false;
        }
      }
      excess += worst;
    }
    return true;
  }

  const Network& network_;
  bool only_impossible_;
  Interner<int> lists_, situations_;
  std::vector<int> answers_;  ///< by situation
  std::vector<int> alive_;    ///< by variable: a list
  std::vector<char> pending_;
  std::vector<int> key_;
};

}  // namespace

NumberedLists undominated_values(const Network& network) { return DeadEnds(network, false).run(); }

NumberedLists possible_values(const Network& network) { return DeadEnds(network, true).run(); }

}  // namespace hetsynth::synth
