#include "synth/wcsp/dead_ends.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

namespace hetsynth::synth {
namespace {

class DeadEnds {
 public:
  /// `changed`: the variables to begin with; none: all.
  DeadEnds(const Network& network, bool only_impossible, const std::vector<int>* changed = nullptr)
      : network_(network),
        only_impossible_(only_impossible),
        pending_(size_t(network.variable_count()), changed ? idle : pending) {
    std::vector<int> allowed(size_t(network.store().size()), -1);  // by table: a list
    alive_.reserve(size_t(network.variable_count()));
    for (int v = 0; v < network.variable_count(); ++v) {
      int& known = allowed[size_t(network.unary_table(v))];
      if (known < 0) known = allowed_values(network.unary(v));
      alive_.push_back(known);
    }
    for (size_t i = 0; changed && i < changed->size(); ++i) {
      const int v = (*changed)[i];
      pending_[size_t(v)] = pending;
      if (lists_[alive_[v]].size() < network.unary(v).size())
        for (const Network::End& end : network.ends(v)) pending_[size_t(end.other)] = pending;
    }
  }

  NumberedLists run() {
    // Sweeps in turn forwards and backwards, so that what follows from a change follows within the sweep.
    for (bool forward = true, changed = true; changed; forward = !forward) {
      changed = false;
      for (size_t at = next(forward); at != std::string::npos; at = next(forward, at)) {
        const int v = int(at);
        pending_[at] = idle;
        int left = reduced(v);
        if (left == alive_[v]) continue;
        alive_[v] = left;
        changed = true;
        for (const Network::End& end : network_.ends(v)) pending_[size_t(end.other)] = pending;
      }
    }
    return {std::move(lists_), std::move(alive_)};
  }

 private:
  static constexpr char idle = 0, pending = 1;

  /// The first pending variable of a sweep, and the first behind another.
  size_t next(bool forward) const { return forward ? pending_.find(pending) : pending_.rfind(pending); }
  size_t next(bool forward, size_t behind) const {
    if (forward) return pending_.find(pending, behind + 1);
    return behind == 0 ? std::string::npos : pending_.rfind(pending, behind - 1);
  }

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
    key_.assign({PairNumbers::word(network_.unary_table(v), alive_[v])});
    for (const Network::End& end : network_.ends(v))
      key_.push_back(PairNumbers::word(network_.pairs()[end.pair].table * 2 + end.first, alive_[end.other]));
    int situation = situations_.number(key_);
    if (situation < int(answers_.size())) return answers_[situation];
    neighbours_.clear();
    for (const Network::End& end : network_.ends(v)) {
      const Network::Pair& pair = network_.pairs()[end.pair];
      size_t columns = size_t(network_.domain(pair.b));
      neighbours_.push_back(
          {network_.table(pair).data(), end.first ? columns : 1, end.first ? 1 : columns, &lists_[alive_[end.other]]});
    }
    answers_.push_back(lists_.number(only_impossible_
                                         ? possible(neighbours_, lists_[alive_[v]])
                                         : undominated(network_.unary(v), neighbours_, lists_[alive_[v]])));
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
    const Picoseconds* more;
    bool alive = true;
  };

  std::vector<int> undominated(const Table& unary, const std::vector<Neighbour>& neighbours,
                               const std::vector<int>& values) {
    ends_.clear();
    for (const Neighbour& n : neighbours) ends_.push_back((ends_.empty() ? 0 : ends_.back()) + n.values->size());
    const size_t width = ends_.empty() ? 0 : ends_.back();
    if (more_.size() < values.size() * width) more_.resize(values.size() * width);
    candidates_.clear();
    Picoseconds* more = more_.data();
    for (int value : values) {
      Candidate c{value, unary[size_t(value)], more};
      if (!add_costs(neighbours, &c, more)) continue;
      candidates_.push_back(c);
      more += width;
    }
    // What dominates a value is no dearer beside the cheapest neighbours; of equals the first stays.
    std::ranges::sort(candidates_, {}, [](const Candidate& c) { return std::pair(c.total, c.value); });
    for (size_t i = candidates_.size(); i-- > 0;) {
      Candidate& own = candidates_[i];
      size_t witness = 0;
      for (size_t j = 0; j < candidates_.size() && candidates_[j].total <= own.total && own.alive; ++j)
        if (i != j && candidates_[j].alive && dominates(candidates_[j], own, &witness)) own.alive = false;
    }
    std::vector<int> left;
    for (const Candidate& c : candidates_)
      if (c.alive) left.push_back(c.value);
    std::sort(left.begin(), left.end());
    return left;
  }

  /// False if a neighbour has no value beside it.
  static bool add_costs(const std::vector<Neighbour>& neighbours, Candidate* c, Picoseconds* more) {
    for (const Neighbour& n : neighbours) {
      const Picoseconds* own = n.table + size_t(c->value) * n.own_stride;
      Picoseconds least = forbidden, *end = more;
      for (int u : *n.values) {
        const Picoseconds cost = own[size_t(u) * n.its_stride];
        least = std::min(least, cost);
        *end++ = cost;
      }
      if (least >= forbidden) return false;
      c->total += least;
      if (least == 0)
        more = end;
      else
        for (; more != end; ++more) *more = *more >= forbidden ? forbidden : *more - least;
    }
    return true;
  }

  /// The excess of b over a begins with its lower bound, the difference of the totals, and only grows from there.
  /// That is at most 0; so is what b costs more beside what is forbidden to a. `witness`: where the last b was found
  /// too dear, and the next often is.
  bool dominates(const Candidate& b, const Candidate& a, size_t* witness) const {
    Picoseconds excess = b.total - a.total;
    if (!ends_.empty() && *witness < ends_.back() && excess + b.more[*witness] - a.more[*witness] > 0) return false;
    size_t at = 0;
    for (size_t end : ends_) {
      Picoseconds worst = 0;  // reached where a is cheapest
      for (; at < end; ++at) {
        const Picoseconds difference = b.more[at] - a.more[at];
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
  Interner<int> lists_;
  Interner<uint64_t> situations_;
  std::vector<int> answers_;  ///< by situation
  std::vector<int> alive_;    ///< by variable: a list
  std::string pending_;       ///< by variable: idle or pending
  std::vector<uint64_t> key_;
  // Of the variable at hand.
  std::vector<Neighbour> neighbours_;
  std::vector<size_t> ends_;  ///< of the neighbours within `more`
  std::vector<Picoseconds> more_;
  std::vector<Candidate> candidates_;
};

}  // namespace

NumberedLists undominated_values(const Network& network) { return DeadEnds(network, false).run(); }

NumberedLists possible_values(const Network& network) { return DeadEnds(network, true).run(); }

NumberedLists undominated_after(const Network& network, const std::vector<int>& changed) {
  return DeadEnds(network, false, &changed).run();
}

NumberedLists possible_after(const Network& network, const std::vector<int>& changed) {
  return DeadEnds(network, true, &changed).run();
}

}  // namespace hetsynth::synth
