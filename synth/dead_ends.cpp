#include "synth/dead_ends.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace hetsynth::synth {
namespace {

class DeadEnds {
 public:
  explicit DeadEnds(const Network& network) : network_(network), pending_(network.variable_count(), 1) {
    for (int v = 0; v < network.variable_count(); ++v) {
      std::vector<int> values(network.domain(v));
      std::iota(values.begin(), values.end(), 0);
      std::erase_if(values, [&](int value) { return network.unary(v)[value] >= forbidden; });
      alive_.push_back(lists_.number(std::move(values)));
    }
  }

  ValueLists run() {
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
    ValueLists out;
    for (int list : alive_) out.push_back(lists_[list]);
    return out;
  }

 private:
  struct Neighbour {
    const Picoseconds* table;
    size_t own_stride, its_stride;
    const std::vector<int>* values;
    Picoseconds at(int own, int its) const { return table[size_t(own) * own_stride + size_t(its) * its_stride]; }
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
    answers_.push_back(lists_.number(undominated(network_.unary(v), neighbours, lists_[alive_[v]])));
    return answers_.back();
  }

  /// A value and what it must cost beside its neighbours' cheapest values.
  struct Candidate {
    int value;
    Picoseconds total;
    std::vector<Picoseconds> least;  ///< by neighbour
    bool alive = true;
  };

  static std::vector<int> undominated(const Table& unary, const std::vector<Neighbour>& neighbours,
                                      const std::vector<int>& values) {
    std::vector<Candidate> candidates;
    for (int value : values) {
      Candidate c{value, unary[value], {}};
      for (const Neighbour& n : neighbours) {
        Picoseconds least = forbidden;
        for (int u : *n.values) least = std::min(least, n.at(value, u));
        c.alive = c.alive && least < forbidden;
        c.total += least;
        c.least.push_back(least);
      }
      if (c.alive) candidates.push_back(std::move(c));
    }
    // What dominates a value is no dearer beside the cheapest neighbours; of equals the first stays.
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& x, const Candidate& y) { return x.total < y.total; });
    for (size_t i = candidates.size(); i-- > 0;)
      for (size_t j = 0; j < candidates.size() && candidates[j].total <= candidates[i].total && candidates[i].alive;
           ++j)
        if (i != j && candidates[j].alive && dominates(neighbours, candidates[j], candidates[i]))
          candidates[i].alive = false;
    std::vector<int> left;
    for (const Candidate& c : candidates)
      if (c.alive) left.push_back(c.value);
    std::sort(left.begin(), left.end());
    return left;
  }

  /// The excess of b over a begins with its lower bound, the difference of the totals, and only grows from there.
  static bool dominates(const std::vector<Neighbour>& neighbours, const Candidate& b, const Candidate& a) {
    Picoseconds excess = b.total - a.total;
    for (size_t i = 0; i < neighbours.size() && excess <= 0; ++i) {
      const Neighbour& n = neighbours[i];
      Picoseconds worst = std::numeric_limits<Picoseconds>::min();
      for (int u : *n.values) {
        Picoseconds with_a = n.at(a.value, u), with_b = n.at(b.value, u);
        if (with_a >= forbidden) continue;  // not reachable with a
        if (with_b >= forbidden) return false;
        worst = std::max(worst, with_b - with_a);
      }
      excess += worst - (b.least[i] - a.least[i]);
    }
    return excess <= 0;
  }

  const Network& network_;
  Interner<int> lists_, situations_;
  std::vector<int> answers_;  ///< by situation
  std::vector<int> alive_;    ///< by variable: a list
  std::vector<char> pending_;
  std::vector<int> key_;
};

}  // namespace

ValueLists undominated_values(const Network& network) { return DeadEnds(network).run(); }

}  // namespace hetsynth::synth
