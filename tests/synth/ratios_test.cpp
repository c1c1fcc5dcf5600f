// Ratios by linear programming, against a grid over all shares, and their rounding.
#include "synth/shares/ratios.h"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <numeric>

#include "programs.h"
#include "random_programs.h"
#include "synth/baselines/baselines.h"
#include "synth/mesh/meshes.h"
#include "synth/network/search.h"
#include "synth/schedule/schedule.h"
#include "synth/support/linear_program.h"

namespace hetsynth {
namespace {

using namespace synth;
using namespace testing_support;
using testing::DoubleNear;
using testing::ElementsAre;

TEST(LinearProgram, FindsTheOptimumAndTellsInfeasibility) {
  // Greatest x + 2 y with x + y <= 4 and y <= 3.
  LinearProgram lp;
  int x = lp.add_variable(0, HUGE_VAL, -1), y = lp.add_variable(0, 3, -2);
  lp.add_row(-HUGE_VAL, 4, {{x, 1}, {y, 1}});
  auto solution = lp.solve();
  ASSERT_TRUE(solution.has_value());
  EXPECT_NEAR((*solution)[x], 1, 1e-9);
  EXPECT_NEAR((*solution)[y], 3, 1e-9);
  lp.add_row(5, HUGE_VAL, {{x, 1}, {y, 1}});
  EXPECT_FALSE(lp.solve().has_value());
}

TEST(LinearProgram, TellsWhatALooserBoundWouldGain) {
  // Greatest x + 2 y with x + y <= 4, y <= 3 and x <= 9.
  LinearProgram lp;
  int x = lp.add_variable(0, HUGE_VAL, -1), y = lp.add_variable(0, HUGE_VAL, -2);
  lp.add_row(-HUGE_VAL, 4, {{x, 1}, {y, 1}});
  lp.add_row(-HUGE_VAL, 3, {{y, 1}});
  lp.add_row(-HUGE_VAL, 9, {{x, 1}});
  std::vector<double> prices;
  ASSERT_TRUE(lp.solve(&prices).has_value());
  EXPECT_EQ(lp.row_count(), 3);
  EXPECT_THAT(prices, ElementsAre(DoubleNear(1, 1e-9), DoubleNear(1, 1e-9), DoubleNear(0, 1e-9)));
}

RC_GTEST_PROP(LinearProgram, WhatIsAddedAfterASolutionCountsAsIfItHadBeenThere, ()) {
  LinearProgram grown;
  std::vector<double> costs;
  std::vector<std::vector<std::pair<int, double>>> rows;
  std::vector<double> least;
  const auto number = [] { return double(*rc::gen::inRange(1, 10)); };
  const auto value_of = [&](const std::vector<double>& solution) {
    double sum = 0;
    for (size_t v = 0; v < costs.size(); ++v) sum += costs[v] * solution[v];
    return sum;
  };
  for (int round = 0; round < 4; ++round) {
    for (int v = *rc::gen::inRange(round == 0 ? 1 : 0, 4); v-- > 0;) {
      costs.push_back(number());
      grown.add_variable(0, HUGE_VAL, costs.back());
    }
    for (int r = *rc::gen::inRange(0, 4); r-- > 0;) {
      rows.emplace_back();
      for (int v = 0; v < int(costs.size()); ++v)
        if (v == 0 || *rc::gen::arbitrary<bool>()) rows.back().push_back({v, number()});
      least.push_back(number());
      grown.add_row(least.back(), HUGE_VAL, rows.back());
    }
    LinearProgram anew;
    for (double cost : costs) anew.add_variable(0, HUGE_VAL, cost);
    for (size_t r = 0; r < rows.size(); ++r) anew.add_row(least[r], HUGE_VAL, rows[r]);
    const auto expected = anew.solve(), found = grown.solve();
    RC_ASSERT(expected.has_value() && found.has_value());
    RC_ASSERT(std::abs(value_of(*expected) - value_of(*found)) <= 1e-7 * (1 + value_of(*expected)));
    for (size_t r = 0; r < rows.size(); ++r) {
      double sum = 0;
      for (const auto& [v, coefficient] : rows[r]) sum += coefficient * (*found)[size_t(v)];
      RC_ASSERT(sum >= least[r] - 1e-6);
    }
  }
}

/// Each share of a part is less than one granule from its due; together they are the part; none where none is due.
RC_GTEST_PROP(Shares, OfAPartFollowThoseOfTheWhole, ()) {
  const auto shares = *rc::gen::nonEmpty(rc::gen::container<std::vector<int64_t>>(rc::gen::inRange<int64_t>(0, 9)));
  const int64_t all = std::accumulate(shares.begin(), shares.end(), int64_t(0)), part = *rc::gen::inRange(0, 30);
  RC_PRE(all > 0);
  RC_ASSERT(bound_in_part(part, shares, 0) == 0);
  RC_ASSERT(bound_in_part(part, shares, shares.size()) == part);
  for (size_t i = 0; i < shares.size(); ++i) {
    const int64_t share = bound_in_part(part, shares, i + 1) - bound_in_part(part, shares, i);
    const double due = double(part) * double(shares[i]) / double(all);
    RC_ASSERT(share >= 0);
    RC_ASSERT(std::abs(double(share) - due) < 1);
    RC_ASSERT(shares[i] > 0 || share == 0);
  }
}

TEST(RoundShares, LargestRemainderKeepsTheSumAndAllowsZero) {
  EXPECT_THAT(round_shares(10, {1, 1, 1}), ElementsAre(4, 3, 3));
  EXPECT_THAT(round_shares(12, {0.5, 0.25, 0.25}), ElementsAre(6, 3, 3));
  EXPECT_THAT(round_shares(2, {1, 1, 1, 1}), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(round_shares(5, {0.9, 0.1, 0}), ElementsAre(5, 0, 0));
}

RC_GTEST_PROP(RoundShares, NeverOffByMoreThanOne, ()) {
  int64_t granules = *rc::gen::inRange<int64_t>(1, 100);
  auto fractions = *rc::gen::nonEmpty(rc::gen::container<std::vector<double>>(rc::gen::element(0.1, 0.5, 1.0, 3.0)));
  std::vector<int64_t> shares = round_shares(granules, fractions);
  double sum = 0;
  int64_t total = 0;
  for (double f : fractions) sum += f;
  for (size_t d = 0; d < shares.size(); ++d) {
    total += shares[d];
    RC_ASSERT(std::abs(double(shares[d]) - double(granules) * fractions[d] / sum) < 1 + 1e-6);
  }
  RC_ASSERT(total == granules);
}

/// Data parallelism with a batch fine enough to stand for a continuum.
struct DataParallel {
  explicit DataParallel(const Program& program, const Cluster& cluster)
      : problem(program, cluster),
        shares(common_shares(problem.classes, {std::vector<double>(cluster.devices.size(), 1.0)})),
        conversions(*problem.analysis, problem.cost, shares),
        choices(data_parallel_choices(problem)),
        terms(cost_terms(problem, conversions, choices)),
        spmd(lower(problem, conversions, shares, choices)) {}
  Problem problem;
  Shares shares;
  Conversions conversions;
  Choices choices;
  std::vector<CostTerm> terms;
  SpmdProgram spmd;
};

TEST(Ratios, EqualTheBestOfAGrid) {
  Program program = mlp(120, {20, 30, 10});
  for (auto speeds : {std::vector<double>{1e9, 2e9}, {1e9, 5e9, 5e9}, {4e9, 1e9, 2e9}}) {
    DataParallel dp(program, cluster_of_speeds(speeds));
    Fractions fractions = best_fractions(dp.problem, dp.terms, dp.spmd);
    ASSERT_FALSE(fractions.empty());
    double found = evaluate(dp.problem, dp.terms, round_fractions(dp.problem, dp.terms, fractions));
    int batch = batch_class(dp.problem);
    double best = HUGE_VAL;
    for (int64_t a = 0; a <= 120; ++a)
      for (int64_t b = 0; a + b <= 120; ++b) {
        if (speeds.size() == 2 && a + b < 120) continue;
        Shares shares = dp.shares;
        shares[0][batch] = {a, b};
        if (speeds.size() == 3) shares[0][batch].push_back(120 - a - b);
        best = std::min(best, evaluate(dp.problem, dp.terms, shares));
      }
    // One granule of 120 is the resolution of both.
    EXPECT_LE(found, best * 1.01);
  }
}

/// The cheapest program of two hosts with two devices at even shares.
struct TwoByTwo {
  explicit TwoByTwo(const Program& program, Cluster cluster)
      : problem(std::make_shared<const Analysis>(program, 2), two_hosts(std::move(cluster)), mesh_of({2, 2})),
        shares(common_shares(problem.classes, fractions_of(problem, RatioRule::even))),
        conversions(*problem.analysis, problem.cost, shares),
        choices(search(problem, conversions, shares, {}, {}).choices),
        terms(cost_terms(problem, conversions, choices)),
        spmd(lower(problem, conversions, shares, choices)) {}
  static Cluster two_hosts(Cluster cluster) {
    cluster.hosts.resize(2, cluster.hosts[0]);
    cluster.devices[2].host = cluster.devices[3].host = 1;
    cluster.between = {5e8, 1e-6};
    return cluster;
  }
  /// By linear programming along the axis, in whole granules; the same along the other.
  Shares refined(int axis) const {
    return round_fractions(problem, terms, best_fractions(problem, terms, spmd, axis, shares), axis, shares);
  }
  double seconds(const Shares& at) const { return evaluate(problem, terms, at); }
  Problem problem;
  Shares shares;
  Conversions conversions;
  Choices choices;
  std::vector<CostTerm> terms;
  SpmdProgram spmd;
};

TEST(Ratios, EqualTheBestOfAGridAlongEachOfTwoAxes) {
  const Program program = mlp(240, {120, 240, 120});
  for (const auto& speeds : {std::vector<double>{1e9, 1e9, 4e9, 4e9}, {1e9, 4e9, 1e9, 4e9}, {1e9, 2e9, 4e9, 8e9}}) {
    const TwoByTwo on(program, cluster_of_speeds(speeds, 1e10));
    bool gained = false;
    for (const int axis : {0, 1}) {
      const Shares found = on.refined(axis);
      const double seconds = on.seconds(found);
      EXPECT_LE(seconds, on.seconds(on.shares) * (1 + 1e-9));
      gained = gained || seconds < on.seconds(on.shares) * 0.9;
      EXPECT_EQ(found[size_t(1 - axis)], on.shares[size_t(1 - axis)]);
      for (size_t c = 0; c < found[size_t(axis)].size(); ++c) {
        const int64_t granules = on.problem.classes.classes[c].granules;
        for (int64_t first = 0; first <= granules; ++first) {
          Shares other = found;
          other[size_t(axis)][c] = {first, granules - first};
          // One granule of 120 is the resolution of both.
          EXPECT_LE(seconds, on.seconds(other) * 1.01) << "axis " << axis << " class " << c << ": " << first;
        }
      }
    }
    EXPECT_TRUE(gained);
  }
}

TEST(Ratios, MemoryBoundsTheShareAlongAnAxis) {
  const Program program = mlp(640, {50, 60, 50});
  const Cluster free = cluster_of_speeds({4e9, 4e9, 1e9, 1e9}, 1e10);
  const TwoByTwo unbounded(program, free);
  const std::vector<int64_t> need = peak_memory(unbounded.problem, unbounded.shares, unbounded.spmd);
  const TwoByTwo tight(
      program, cluster_of_speeds({4e9, 4e9, 1e9, 1e9}, 1e10, 1e-6, {need[0], need[1], need[2] * 4, need[3] * 4}));
  // What the fast host would take over is more than it can hold.
  const std::vector<int64_t> wanted = peak_memory(unbounded.problem, unbounded.refined(0), unbounded.spmd);
  ASSERT_GT(wanted[0], need[0]);
  const std::vector<int64_t> bounded = peak_memory(tight.problem, tight.refined(0), tight.spmd);
  EXPECT_LE(bounded[0], need[0]);
  EXPECT_LE(bounded[1], need[1]);
}

TEST(Ratios, AWorthlessDeviceGetsNothing) {
  Program program = mlp(16, {20, 30, 10});
  DataParallel dp(program, cluster_of_speeds({1e12, 1}));
  Shares shares = round_fractions(dp.problem, dp.terms, best_fractions(dp.problem, dp.terms, dp.spmd));
  EXPECT_THAT(shares[0][batch_class(dp.problem)], ElementsAre(16, 0));
  EXPECT_EQ(compare_with_reference(program, lower(dp.problem, dp.conversions, shares, dp.choices), 5), "");
}

TEST(Ratios, MemoryBoundsTheShare) {
  Program program = mlp(640, {50, 60, 50});  // activations outweigh weights
  DataParallel free(program, cluster_of_speeds({4e9, 1e9}));
  std::vector<int64_t> need = peak_memory(free.problem, free.shares, free.spmd);  // at even shares
  DataParallel tight(program, cluster_of_speeds({4e9, 1e9}, 1e9, 1e-6, {need[0], need[1] * 4}));
  Shares unbounded = round_fractions(free.problem, free.terms, best_fractions(free.problem, free.terms, free.spmd));
  ASSERT_FALSE(best_fractions(tight.problem, tight.terms, tight.spmd).empty());
  Shares bounded = round_fractions(tight.problem, tight.terms, best_fractions(tight.problem, tight.terms, tight.spmd));
  int batch = batch_class(free.problem);
  EXPECT_GT(unbounded[0][batch][0], 400);
  EXPECT_LE(bounded[0][batch][0], 320);
}

/// A program of which the fast device holds more than it has room for, unless the slow one takes what it has.
struct TightRatios {
  const Program program = mlp(640, {50, 60, 50});  // activations outweigh weights
  const DataParallel free{program, cluster_of_speeds({4e9, 1e9})};
  const std::vector<int64_t> need = peak_memory(free.problem, free.shares, free.spmd);  // at even shares

  DataParallel with(double memory) const {
    return DataParallel(program,
                        cluster_of_speeds({4e9, 1e9}, 1e9, 1e-6, {int64_t(double(need[0]) * memory), need[1] * 4}));
  }
  /// What the fast device takes of the batch.
  static double part(const DataParallel& dp, const MemoryLimits& limits) {
    return best_fractions(dp.problem, dp.terms, dp.spmd, 0, {}, limits)[size_t(batch_class(dp.problem))][0];
  }
};

TEST(Ratios, MemoryThatCostsLittleIsTakenAndMemoryThatCostsMuchIsNot) {
  const TightRatios tight;
  const DataParallel dp = tight.with(1);
  const double wanted = TightRatios::part(tight.free, {}), allowed = TightRatios::part(dp, {});
  ASSERT_GT(wanted, allowed + 0.1);
  EXPECT_NEAR(TightRatios::part(dp, {.seconds_over = 1e-12}), wanted, 1e-6);
  EXPECT_NEAR(TightRatios::part(dp, {.seconds_over = 1e3}), allowed, 1e-6);
}

/// The price of a limit is what the step gains where the limit is a little looser, and never more than what it costs to
/// be over it.
TEST(Ratios, ALimitCostsWhatAByteMoreWouldSave) {
  const TightRatios tight;
  std::vector<LimitPrice> met;
  const auto seconds = [&](double memory) {
    const DataParallel dp = tight.with(memory);
    const Fractions fractions = best_fractions(dp.problem, dp.terms, dp.spmd, 0, {}, {.met = &met});
    return evaluate(dp.problem, dp.terms, round_fractions(dp.problem, dp.terms, fractions));
  };
  const double step = 0.1, gained = seconds(1 - step / 2) - seconds(1 + step / 2);
  met.clear();
  seconds(1);
  ASSERT_EQ(met.size(), 1u);
  EXPECT_EQ(met[0].device, 0);
  EXPECT_GT(gained, 0);
  EXPECT_NEAR(met[0].seconds * step, gained, 0.05 * gained) << "a granule is 2 % of the difference";
  const double price = met[0].seconds / 2;
  met.clear();
  TightRatios::part(tight.with(1), {.seconds_over = price, .met = &met});
  ASSERT_EQ(met.size(), 1u);
  EXPECT_NEAR(met[0].seconds, price, 1e-6 * price);
  met.clear();
  TightRatios::part(tight.with(100), {.met = &met});
  EXPECT_TRUE(met.empty()) << "there is room for all";
}

TEST(Ratios, NoSharesFitTooLittleMemory) {
  Program program = mlp(64, {200, 300, 100});
  DataParallel dp(program, cluster_of_speeds({4e9, 1e9}, 1e9, 1e-6, {1000, 1000}));
  EXPECT_TRUE(best_fractions(dp.problem, dp.terms, dp.spmd).empty());
}

/// Of four devices two hold a sample, and all of them rows.
struct SamplesAndRows {
  explicit SamplesAndRows(const Cluster& cluster)
      : reference(samples_and_rows()),
        problem(reference, cluster),
        shares(common_shares(problem.classes, {std::vector<double>(cluster.devices.size(), 1.0)})),
        conversions(*problem.analysis, problem.cost, shares) {
    SearchInput input;
    input.pins = &pins;
    for (const Node& node : problem.program.nodes) {
      const auto along_first = [&](int form) {
        const AxisForm& on = problem.rules.forms[node.id][size_t(form)].on[0];
        return on.sharded() && on.dim == 0;
      };
      if (node.name == "x" || node.name == "table") {
        const std::vector<int> forms = problem.rules.leaf_forms(node);
        for (size_t form = 0; form < forms.size(); ++form)
          if (along_first(forms[form])) pins[node.id].push_back(int(form));
      } else if (node.name == "hidden") {
        const auto& options = problem.rules.options[node.id];
        for (size_t option = 0; option < options.size(); ++option)
          if (along_first(options[option].form)) pins[node.id].push_back(int(option));
      }
    }
    choices = search(problem, conversions, shares, input, {}).choices;
    terms = cost_terms(problem, conversions, choices);
    spmd = lower(problem, conversions, shares, choices);
  }
  int class_of(const std::string& leaf) const {
    for (const Node& node : problem.program.nodes)
      if (node.name == leaf) return problem.classes.dims[size_t(node.id)][0];
    throw InternalError("no such leaf");
  }
  const Program reference;
  const Problem problem;
  Pins pins;
  Shares shares;
  Conversions conversions;
  Choices choices;
  std::vector<CostTerm> terms;
  SpmdProgram spmd;
};

TEST(FineShares, MakeRoomForWhatHasFewGranules) {
  const SamplesAndRows free(cluster_of_speeds({4e9, 4e9, 4e9, 4e9}));
  const size_t samples = size_t(free.class_of("x")), rows = size_t(free.class_of("table"));
  ASSERT_EQ(free.shares[0][samples], (std::vector<int64_t>{1, 1, 0, 0}));
  const std::vector<int64_t> need = peak_memory(free.problem, free.shares, free.spmd);
  ASSERT_GT(need[0], need[3]);
  // Enough where each held a fourth of everything, but not for those that hold a sample.
  const int64_t most = (need[0] + need[3]) / 2 * 104 / 100, memory = memory_to_fill(most);
  ASSERT_LT(most, need[0]);
  const SamplesAndRows tight(cluster_of_speeds({4e9, 4e9, 4e9, 4e9}, 1e9, 1e-6, {memory, memory, memory, memory}));
  Shares shares = tight.shares;
  ASSERT_TRUE(refine_shares(tight.problem, tight.terms, tight.spmd, {0}, &shares));
  EXPECT_EQ(shares[0][samples], tight.shares[0][samples]);
  EXPECT_GT(peak_memory(tight.problem, shares, tight.spmd)[0], most) << "the linear program knows no whole granules";
  ASSERT_TRUE(refine_fine_shares(tight.problem, tight.terms, tight.spmd, {0}, &shares));
  EXPECT_EQ(shares[0][samples], tight.shares[0][samples]);
  EXPECT_LT(shares[0][rows][0], shares[0][rows][3]);
  EXPECT_EQ(shares[0][rows][0], shares[0][rows][1]);
  EXPECT_EQ(std::accumulate(shares[0][rows].begin(), shares[0][rows].end(), int64_t(0)), 8192);
  for (const int64_t bytes : peak_memory(tight.problem, shares, tight.spmd)) EXPECT_LE(bytes, most);
  EXPECT_EQ(
      compare_with_reference(
          tight.reference,
          lower(tight.problem, Conversions(*tight.problem.analysis, tight.problem.cost, shares), shares, tight.choices),
          5),
      "");
}

TEST(FineShares, AreNotFoundWhereSamplesAloneAreTooMuch) {
  const SamplesAndRows free(cluster_of_speeds({4e9, 4e9, 4e9, 4e9}));
  const std::vector<int64_t> need = peak_memory(free.problem, free.shares, free.spmd);
  const int64_t little = memory_to_fill(need[3]);
  const SamplesAndRows tight(cluster_of_speeds({4e9, 4e9, 4e9, 4e9}, 1e9, 1e-6, {little, little, little, little}));
  Shares shares = tight.shares;
  EXPECT_FALSE(refine_fine_shares(tight.problem, tight.terms, tight.spmd, {0}, &shares));
  EXPECT_EQ(shares, tight.shares);
}

}  // namespace
}  // namespace hetsynth
