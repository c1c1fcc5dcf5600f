#include "synth/stages/stage_search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>

namespace hetsynth::synth {
namespace {

using Group = StageProblem::Group;

/// Sums over ranges of positions.
class Prefix {
 public:
  Prefix() = default;
  explicit Prefix(const std::vector<double>& values) : sums_(values.size() + 1, 0) {
    std::partial_sum(values.begin(), values.end(), sums_.begin() + 1);
  }
  double of(int begin, int end) const { return sums_[size_t(end)] - sums_[size_t(begin)]; }

 private:
  std::vector<double> sums_;
};

/// Costs of segments.
class Segments {
 public:
  explicit Segments(const StageProblem& problem) : p_(problem), kept_(problem.kept_bytes), saved_(problem.saved_bytes) {
    for (const GroupKind& kind : problem.kinds) {
      turn_.emplace_back(kind.turn_seconds);
      once_.emplace_back(kind.once_seconds);
    }
    std::vector<double> least(size_t(problem.positions()), std::numeric_limits<double>::infinity());
    for (size_t at = 0; at < least.size(); ++at)
      for (const GroupKind& kind : problem.kinds) least[at] = std::min(least[at], kind.turn_seconds[at]);
    for (const GroupKind& kind : problem.kinds) {
      double& speed = speeds_.emplace_back(0);
      for (size_t at = 0; at < least.size(); ++at)
        if (least[at] > 0) speed = std::max(speed, least[at] / kind.turn_seconds[at]);
    }
    least_ = Prefix(least);
  }

  /// No stages take less for what is before a position.
  double least(int before) const { return least_.of(0, before); }
  /// At most so much of that does a group do in a second.
  double speed(int kind) const { return speeds_[size_t(kind)]; }
  /// The same of all groups but those that are used, by kind.
  double speed_without(const std::vector<int>& used) const {
    double out = 0;
    for (size_t kind = 0; kind < used.size(); ++kind) out += (p_.kinds[kind].groups - used[kind]) * speeds_[kind];
    return out;
  }

  /// What one turn takes.
  double turn(int kind, int begin, int end) const { return turn_[size_t(kind)].of(begin, end); }
  /// What one turn takes, with its part of what the stage does once a step. The formula counts (turns - 1) turns of the
  /// longest stage, so that a part is 1 / (turns - 1) of it.
  double each(int kind, int begin, int end) const {
    return turn(kind, begin, end) + once_[size_t(kind)].of(begin, end) / double(std::max<int64_t>(1, p_.turns - 1));
  }

  /// With so many segments behind it, and, from position `rest` on, the last one on the same group.
  bool fits(int kind, int begin, int end, int behind, int rest) const {
    const double limit = p_.kinds[size_t(kind)].memory_bytes;
    const bool one = p_.counted == StageProblem::Counted::one_turn;
    const auto turns = one ? 1 : double(std::min<int64_t>(p_.turns, behind + 1));
    const int all = p_.positions();
    return limit <= 0 || p_.counted == StageProblem::Counted::no_memory ||
           kept_.of(begin, end) + kept_.of(rest, all) + turns * saved_.of(begin, end) + saved_.of(rest, all) <= limit;
  }
  bool fits(int kind, int begin, int end, int behind) const { return fits(kind, begin, end, behind, p_.positions()); }

 private:
  const StageProblem& p_;
  std::vector<Prefix> turn_, once_;  ///< by kind
  Prefix kept_, saved_, least_;
  std::vector<double> speeds_;  ///< by kind
};

double formula(const StageProblem& p, double longest, double through) {
  return double(p.turns - 1) * longest + through;
}

/// How long a transfer there and back keeps a device's streams busy.
double busy(const StageProblem& p, double moved) { return p.both_ways ? moved / 2 : moved; }

/// What both ends of a line have to do with the same parameters.
void add_shared(const StageProblem& p, Group last, Group first, double* longest, double* through) {
  if (p.shared_bytes <= 0) return;
  const double moved = p.transfer(last, first, p.shared_bytes);
  *longest = std::max(*longest, moved);  // one way
  *through += moved;
}

/// Stages are added from the last one to the first: how many stand behind one says how many turns it keeps.
class Division {
 public:
  Division(const StageProblem& problem, size_t most)
      : p_(problem),
        costs_(problem),
        most_(most),
        to_beat_(problem.to_beat > 0 ? problem.to_beat : std::numeric_limits<double>::infinity()) {}

  std::vector<StageDivision> run() {
    begins_ = {0};
    begins_.insert(begins_.end(), p_.cuts.begin(), p_.cuts.end());
    for (int kind = 0; kind < int(p_.kinds.size()); ++kind)
      for (const int cut : p_.ring_cuts) run_from(Group{kind, 0}, cut);
    run_from(std::nullopt, p_.positions());
    return found();
  }

 private:
  /// Groups used by kind, and the kind of the one added last.
  struct Key {
    std::vector<int> used;
    int kind;
    auto operator<=>(const Key&) const = default;
  };
  /// A way to divide all positions from some one on: of these, those that are neither slower nor longer than another.
  struct Label {
    double longest = 0, through = 0;
    const Label* behind = nullptr;
    Group group = {};
    int begin = 0;
    Group last = {};
    bool stage = true;  ///< false: nothing is divided yet
  };
  using Front = std::vector<Label>;
  using Fronts = std::vector<Front>;  ///< by first position of what is divided: which of begins_ it is

  /// Divides the positions before `end`. `first`: the group of the rest, which also gets the first segment.
  void run_from(std::optional<Group> first, int end) {
    first_ = first;
    rest_ = end;
    states_.clear();
    Key none{std::vector<int>(p_.kinds.size(), 0), -1};
    Label start;
    if (first) {
      none.used[size_t(first->kind)] = 1;
      start.longest = costs_.each(first->kind, end, p_.positions());
      start.through = costs_.turn(first->kind, end, p_.positions());
      start.group = start.last = *first;
      start.begin = end;
    } else {
      start.stage = false;
    }
    fronts(none)[number(end)] = {start};
    // States with fewer groups come first.
    std::vector<Key> layer{none};
    while (!layer.empty()) {
      std::set<Key> next;
      for (const Key& key : layer) extend(key, next);
      layer.assign(next.begin(), next.end());
    }
  }

  /// The number of a position among the beginnings of segments; the end of all positions has the number behind theirs.
  size_t number(int position) const { return size_t(std::ranges::lower_bound(begins_, position) - begins_.begin()); }
  int position(size_t number) const { return number < begins_.size() ? begins_[number] : p_.positions(); }
  Fronts& fronts(const Key& key) {
    Fronts& out = states_[key];
    out.resize(begins_.size() + 1);
    return out;
  }

  bool hopeless(double seconds) const { return seconds >= to_beat_; }

  /// One more stage on the next group of a kind.
  struct Step {
    Key to;
    Group group;
    Fronts* fronts = nullptr;  ///< null: no group is left
  };

  void extend(const Key& key, std::set<Key>& next) {
    const int behind = std::accumulate(key.used.begin(), key.used.end(), 0);
    const bool enough = p_.stages > 0 && behind + 1 >= p_.stages + (first_ ? 1 : 0);
    std::vector<Step> steps;
    for (int kind = 0; kind < int(p_.kinds.size()); ++kind) {
      Step step{{key.used, kind}, {kind, key.used[size_t(kind)]}};
      ++step.to.used[size_t(kind)];
      if (!enough && step.group.number < p_.kinds[size_t(kind)].groups) step.fronts = &fronts(step.to);
      steps.push_back(std::move(step));
    }
    // Pointers to labels of complete fronts stay: no front is added to once its layer is extended.
    const Fronts& ended = states_[key];
    for (size_t end = 0; end < ended.size(); ++end)
      for (const Label& label : ended[end])
        for (const Step& step : steps) {
          if (step.fronts && add_stages(label, step, end, behind)) next.insert(step.to);
          complete(key, label, step.to.kind, position(end), behind);  // maybe on another group, with other links
        }
  }

  /// Stages that end there, the shortest first. Returns whether one was added.
  bool add_stages(const Label& label, const Step& step, size_t end, int behind) {
    bool any = false;
    const double moved = label.stage ? p_.crossing(position(end), step.group, label.group) : 0;
    const double speed_left = costs_.speed_without(step.to.used) + (first_ ? costs_.speed(first_->kind) : 0);
    for (size_t begin = end; begin-- > 1;) {
      const Label added = behind_of(label, step.group, begins_[begin], position(end), 0, moved);
      // What a stage takes and the least that is still to come grow together with it: longer stages are worse.
      const double rest = costs_.least(begins_[begin]);
      if (hopeless(formula(p_, added.longest, added.through + rest)) ||
          !costs_.fits(step.to.kind, begins_[begin], position(end), behind))
        break;
      // Of those before it one takes its part of the rest at least; that is less where this stage is longer.
      if (hopeless(formula(p_, std::max(added.longest, rest / speed_left), added.through + rest))) continue;
      any |= add((*step.fronts)[begin], added);
    }
    return any;
  }

  /// The segment before the label's, on a group that has `more` besides. `moved`: what crosses between them, if the
  /// label has one.
  Label behind_of(const Label& label, Group group, int begin, int end, double more, double moved) const {
    const double each = costs_.each(group.kind, begin, end);
    Label added{
        std::max(label.longest, each + more), label.through + costs_.turn(group.kind, begin, end), &label, group, begin,
        label.stage ? label.last : group};
    if (label.stage) {
      added.longest = std::max(added.longest, busy(p_, moved));
      added.through += moved;
    }
    return added;
  }

  /// The first segment: on a group of its own, or on the one that has the rest.
  void complete(const Key& key, const Label& label, int kind, int end, int behind) {
    if (behind < (first_ ? 2 : 1)) return;
    if (p_.stages > 0 && behind + (first_ ? 0 : 1) != p_.stages) return;
    if (first_ ? kind != first_->kind : key.used[size_t(kind)] == p_.kinds[size_t(kind)].groups) return;
    const Group group = first_ ? *first_ : Group{kind, key.used[size_t(kind)]};
    const double more = first_ ? costs_.each(kind, rest_, p_.positions()) : 0;
    Label added = behind_of(label, group, 0, end, more, label.stage ? p_.crossing(end, group, label.group) : 0);
    if (!first_) add_shared(p_, added.last, group, &added.longest, &added.through);
    if (hopeless(formula(p_, added.longest, added.through))) return;
    if (costs_.fits(kind, 0, end, behind, first_ ? rest_ : p_.positions())) keep(added);
  }

  /// False if some label of the front is as good.
  bool add(Front& front, const Label& label) const {
    const auto covers = [&](const Label& a, const Label& b) {
      const bool alike = first_ || p_.shared_bytes <= 0 || a.last == b.last;  // the first stage sends to the last one
      return alike && a.longest <= b.longest && a.through <= b.through;
    };
    if (std::ranges::any_of(front, [&](const Label& other) { return covers(other, label); })) return false;
    std::erase_if(front, [&](const Label& other) { return covers(label, other); });
    front.push_back(label);
    return true;
  }

  /// Complete: from the first position on.
  void keep(const Label& label) {
    StageDivision division;
    for (const Label* at = &label; at && at->stage; at = at->behind) {
      division.groups.push_back(at->group);
      if (at != &label) division.ends.push_back(at->begin);
    }
    division.ends.push_back(p_.positions());
    division.seconds = formula(p_, label.longest, label.through);
    std::vector<int> kinds{first_ ? 1 : 0};
    for (const Group& group : division.groups) kinds.push_back(group.kind);
    const auto [it, fresh] = divisions_.try_emplace(kinds, division);
    if (!fresh && it->second.seconds > division.seconds) it->second = division;
    if (divisions_.size() < most_) return;
    std::vector<double> seconds;
    for (const auto& [unused, kept] : divisions_) seconds.push_back(kept.seconds);
    std::ranges::nth_element(seconds, seconds.begin() + long(most_) - 1);
    to_beat_ = std::min(to_beat_, seconds[most_ - 1]);
  }

  std::vector<StageDivision> found() const {
    std::vector<StageDivision> out;
    for (const auto& [kinds, division] : divisions_) out.push_back(division);
    std::ranges::stable_sort(out, {}, &StageDivision::seconds);
    if (out.size() > most_) out.resize(most_);
    return out;
  }

  const StageProblem& p_;
  const Segments costs_;
  const size_t most_;
  double to_beat_;  ///< divisions that take longer are of no use, or as many faster ones are known as are wanted
  std::vector<int> begins_;
  std::optional<Group> first_;  ///< has the rest as well
  int rest_ = 0;                ///< where that begins
  std::map<Key, Fronts> states_;
  std::map<std::vector<int>, StageDivision> divisions_;  ///< complete, by kinds
};

}  // namespace

std::vector<StageDivision> divide_into_stages(const StageProblem& problem, size_t most) {
  return Division(problem, most).run();
}

double least_of_any_division(const StageProblem& problem) {
  const Segments costs(problem);
  const double through = costs.least(problem.positions());
  const double speed = costs.speed_without(std::vector<int>(problem.kinds.size(), 0));
  return formula(problem, through > 0 ? through / speed : 0, through);
}

double pipeline_seconds(const StageProblem& problem, const StageDivision& division) {
  const Segments costs(problem);
  double longest = 0, through = 0, first = 0;
  for (size_t s = 0, begin = 0; s < division.ends.size(); begin = size_t(division.ends[s++])) {
    const double each = costs.each(division.groups[s].kind, int(begin), division.ends[s]);
    const double moved = s + 1 < division.ends.size()
                             ? problem.crossing(division.ends[s], division.groups[s], division.groups[s + 1])
                             : 0;
    if (s == 0) first = each;
    const bool returns = s > 0 && s + 1 == division.ends.size() && division.ring();
    longest = std::max({longest, each + (returns ? first : 0), busy(problem, moved)});
    through += costs.turn(division.groups[s].kind, int(begin), division.ends[s]) + moved;
  }
  if (!division.ring()) add_shared(problem, division.groups.back(), division.groups.front(), &longest, &through);
  return formula(problem, longest, through);
}

bool fits(const StageProblem& problem, const StageDivision& division) {
  const Segments costs(problem);
  const int last = int(division.ends.size()) - 1;
  const int rest = division.ring() ? division.ends[size_t(last) - 1] : problem.positions();
  for (int s = 0, begin = 0; s <= last; begin = division.ends[size_t(s++)]) {
    if (s == last && division.ring()) return true;
    if (!costs.fits(division.groups[size_t(s)].kind, begin, division.ends[size_t(s)], last - s,
                    s == 0 ? rest : problem.positions()))
      return false;
  }
  return true;
}

}  // namespace hetsynth::synth
