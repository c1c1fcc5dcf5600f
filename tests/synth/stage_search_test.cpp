// Divisions of a step into stages, against all there are.
#include "synth/stages/stage_search.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

namespace hetsynth::synth {
namespace {

/// Chains of up to 8 layers on up to 4 groups of 2 kinds, in up to 4 turns.
StageProblem any_problem() {
  StageProblem p;
  p.turns = *rc::gen::inRange<int64_t>(1, 5);
  const int layers = *rc::gen::inRange(2, 9), kinds = *rc::gen::inRange(1, 3);
  const auto numbers = [&](int most) {
    std::vector<double> out;
    for (int i = 0; i < layers; ++i) out.push_back(*rc::gen::inRange(0, most));
    return out;
  };
  for (int kind = 0; kind < kinds; ++kind) {
    GroupKind made{*rc::gen::inRange(1, kinds == 1 ? 5 : 3), numbers(50), numbers(20), 0};
    if (*rc::gen::arbitrary<bool>()) made.memory_bytes = *rc::gen::inRange(20, 400);
    p.kinds.push_back(made);
  }
  for (int cut = 1; cut < layers; ++cut)
    if (*rc::gen::inRange(0, 4) > 0) {
      p.cuts.push_back(cut);
      p.cut_bytes.push_back(*rc::gen::inRange(0, 30));
      p.cut_bytes_back.push_back(*rc::gen::inRange(0, 30));
    }
  p.kept_bytes = numbers(60);
  p.saved_bytes = numbers(30);
  int groups = 0;
  for (const GroupKind& kind : p.kinds) groups += kind.groups;
  for (int from = 0; from < groups; ++from) {
    p.links.emplace_back();
    for (int to = 0; to < groups; ++to)
      p.links.back().push_back({double(*rc::gen::inRange(1, 5)), double(*rc::gen::inRange(0, 4))});
  }
  if (*rc::gen::arbitrary<bool>() && !p.cuts.empty()) {
    p.ring_cuts = {p.cuts.back()};
    p.shared_bytes = *rc::gen::inRange(0, 60);
  }
  p.both_ways = *rc::gen::arbitrary<bool>();
  if (*rc::gen::inRange(0, 4) == 0) p.stages = *rc::gen::inRange(2, 5);
  return p;
}

/// Every division: cuts, and kinds of the stages in order; groups of a kind are taken from the last stage on.
class Enumeration {
 public:
  explicit Enumeration(const StageProblem& problem) : p_(problem) {}

  std::optional<StageDivision> fastest() {
    add({}, 0);
    return best_;
  }

 private:
  void add(const std::vector<int>& ends, int begin) {
    std::vector<int> here = p_.cuts;
    here.push_back(p_.positions());
    for (const int end : here) {
      if (end <= begin) continue;
      std::vector<int> longer = ends;
      longer.push_back(end);
      if (end < p_.positions())
        add(longer, end);
      else
        choose(longer, {});
    }
  }

  void choose(const std::vector<int>& ends, const std::vector<int>& kinds) {
    if (kinds.size() < ends.size()) {
      for (int kind = 0; kind < int(p_.kinds.size()); ++kind) {
        std::vector<int> longer = kinds;
        longer.push_back(kind);
        choose(ends, longer);
      }
      return;
    }
    try_division(ends, kinds, false);
    if (ends.size() > 2 && std::ranges::count(p_.ring_cuts, ends[ends.size() - 2]) > 0 && kinds.front() == kinds.back())
      try_division(ends, kinds, true);
  }

  void try_division(const std::vector<int>& ends, const std::vector<int>& kinds, bool ring) {
    StageDivision division{ends, std::vector<StageProblem::Group>(ends.size()), 0};
    std::vector<int> used(p_.kinds.size(), 0);
    for (size_t s = ends.size(); s-- > (ring ? 1u : 0u);) division.groups[s] = {kinds[s], used[size_t(kinds[s])]++};
    if (ring) division.groups.front() = division.groups.back();
    for (size_t kind = 0; kind < used.size(); ++kind)
      if (used[kind] > p_.kinds[kind].groups) return;
    if (division.stages() < 2 || (p_.stages > 0 && division.stages() != p_.stages) || !fits(p_, division)) return;
    division.seconds = pipeline_seconds(p_, division);
    if (!best_ || division.seconds < best_->seconds) best_ = division;
  }

  const StageProblem& p_;
  std::optional<StageDivision> best_;
};

RC_GTEST_PROP(StageSearch, FindsTheFastestOfAllDivisions, ()) {
  const StageProblem p = any_problem();
  const std::optional<StageDivision> wanted = Enumeration(p).fastest();
  const std::vector<StageDivision> found = divide_into_stages(p, 1);
  RC_ASSERT(found.empty() == !wanted);
  if (!wanted) return;
  const auto show = [](const StageDivision& d) {
    std::string out = std::to_string(d.seconds) + ":";
    for (size_t s = 0; s < d.ends.size(); ++s)
      out += " to " + std::to_string(d.ends[s]) + " on " + std::to_string(d.groups[s].kind) + "." +
             std::to_string(d.groups[s].number);
    return out;
  };
  RC_LOG() << p.turns << " turns, " << p.positions() << " layers, ring " << p.ring_cuts.size() << ", shared "
           << p.shared_bytes << ", stages " << p.stages << ", found " << show(found[0]) << ", wanted " << show(*wanted);
  RC_ASSERT(std::abs(found[0].seconds - wanted->seconds) < 1e-9 * (1 + wanted->seconds));
  RC_ASSERT(std::abs(pipeline_seconds(p, found[0]) - found[0].seconds) < 1e-9 * (1 + wanted->seconds));
  RC_ASSERT(fits(p, found[0]));
  RC_ASSERT(least_of_any_division(p) < found[0].seconds + 1e-9 * (1 + wanted->seconds));
}

/// Six seconds of the fast group's work, which the other does at half its speed: 4 and 2 of them, a turn each.
TEST(StageSearch, NoDivisionTakesLessThanAllGroupsBusyAllTheTime) {
  StageProblem p;
  p.turns = 3;
  p.kinds = {{1, {1, 2, 3}, {0, 0, 0}, 0}, {1, {2, 4, 6}, {0, 0, 0}, 0}};
  p.cuts = {1, 2};
  p.cut_bytes = p.cut_bytes_back = {0, 0};
  p.kept_bytes = p.saved_bytes = {0, 0, 0};
  EXPECT_NEAR(least_of_any_division(p), 2 * 4 + 6, 1e-12);
}

/// Stages do at the same time what they do once: (turns - 1) of the longest stage, a turn through all, and once.
TEST(StageSearch, WhatRunsOnceIsCountedOfTheLongestStage) {
  StageProblem p;
  p.turns = 4;
  p.kinds = {{2, {1, 1}, {5, 5}, 0}};
  p.cuts = {1};
  p.cut_bytes = p.cut_bytes_back = {0};
  p.kept_bytes = p.saved_bytes = {0, 0};
  p.links.assign(2, std::vector<Link>(2, Link{1e9, 0}));
  const std::vector<StageDivision> found = divide_into_stages(p, 1);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NEAR(found[0].seconds, 3 * 1 + 2 + 5, 1e-12);
}

RC_GTEST_PROP(StageSearch, TellsSeveralInOrder, ()) {
  const StageProblem p = any_problem();
  const std::vector<StageDivision> found = divide_into_stages(p, 4);
  RC_ASSERT(std::ranges::is_sorted(found, {}, &StageDivision::seconds));
  for (const StageDivision& division : found) RC_ASSERT(fits(p, division) && division.ends.back() == p.positions());
}

RC_GTEST_PROP(StageSearch, PassesOverWhatCannotWin, ()) {
  StageProblem p = any_problem();
  const std::vector<StageDivision> all = divide_into_stages(p, 1);
  if (all.empty()) return;
  p.to_beat = all[0].seconds * 1.01 + 1e-6;
  const std::vector<StageDivision> found = divide_into_stages(p, 1);
  RC_ASSERT(found.size() == 1u);
  RC_ASSERT(found[0].seconds == all[0].seconds);
  p.to_beat = all[0].seconds * 0.99 - 1e-6;
  if (p.to_beat > 0) RC_ASSERT(divide_into_stages(p, 1).empty());
}

}  // namespace
}  // namespace hetsynth::synth
