// Planning under memory limits: plans that fit, bounds that hold against enumeration, and honest reasons where none
// fits.
#include "synth/memory/memory_search.h"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include "dsl/base/error.h"
#include "dsl/transform/differentiate.h"
#include "dsl/transform/turns.h"
#include "hetsynth/hetsynth.h"
#include "programs.h"
#include "random_programs.h"
#include "synth/alternation/lagrangian_share_search.h"
#include "synth/baselines/baselines.h"
#include "synth/memory/memory_bound.h"
#include "synth/memory/plan_mixture.h"
#include "synth/memory/recompute.h"
#include "synth/mesh/meshes.h"
#include "synth/network/plan_network.h"
#include "synth/planner/synthesize.h"
#include "synth/schedule/lower.h"
#include "synth/schedule/memory_floor.h"
#include "synth/schedule/schedule.h"

namespace hetsynth {
namespace {

using namespace synth;
using namespace testing_support;
using ::testing::HasSubstr;

Cluster with_memory(Cluster cluster, int64_t bytes) {
  for (Device& device : cluster.devices) device.memory_bytes = bytes;
  return cluster;
}

/// Least time of all choices that fit, each operation's and leaf's option enumerated, conversions as they are cheapest;
/// `forbidden` if none does.
Picoseconds enumerated_within_memory(const Problem& problem, const Shares& shares) {
  Conversions conversions(*problem.analysis, problem.cost, shares);
  const auto& nodes = problem.program.nodes;
  std::vector<int> counts;
  for (const Node& node : nodes) {
    int forms = 0;
    for (const Form& form : problem.rules.forms[node.id]) forms += !form.partial();
    counts.push_back(!node.leaf()                   ? int(problem.rules.options[node.id].size())
                     : node.kind == NodeKind::input ? 1
                                                    : forms);
  }
  Choices choices{std::vector<int>(nodes.size(), 0), {}};
  Picoseconds best = forbidden;
  for (;;) {
    Picoseconds cost = total_cost(problem, conversions, shares, choices);
    if (cost < best && make_candidate(problem, conversions, shares, choices, cost).fits()) best = cost;
    size_t digit = 0;
    while (digit < nodes.size() && ++choices.of[digit] == counts[digit]) choices.of[digit++] = 0;
    if (digit == nodes.size()) return best;
  }
}

double option_combinations(const Problem& problem) {
  double count = 1;
  for (const Node& node : problem.program.nodes)
    count *= double(
        std::max<size_t>(1, node.leaf() ? problem.rules.forms[node.id].size() : problem.rules.options[node.id].size()));
  return count;
}

void check_what_encloses_the_best(const Program& program, const Cluster& cluster, const Mesh& mesh,
                                  double most_combinations) {
  const auto analysis = std::make_shared<const Analysis>(program, int(mesh.axes.size()));
  Problem roomy(analysis, with_memory(cluster, int64_t(1) << 40), mesh);
  RC_PRE(option_combinations(roomy) < most_combinations);
  Shares shares = common_shares(roomy.classes, fractions_of(roomy, RatioRule::even));
  Conversions conversions(*roomy.analysis, roomy.cost, shares);
  Candidate free = make_candidate(roomy, conversions, shares, search(roomy, conversions, shares, {}, {}).choices, 0);
  const int64_t need = int64_t(free.fullest() * double(int64_t(1) << 40));
  Problem tight(analysis, with_memory(cluster, std::max<int64_t>(1, need * *rc::gen::inRange(40, 100) / 100)), mesh);
  Conversions same(*tight.analysis, tight.cost, shares);
  Solution cheapest = search(tight, same, shares, {}, {});
  Candidate start = make_candidate(tight, same, shares, cheapest.choices, cheapest.cost);
  start.bound = cheapest.search.lower_bound;
  if (start.fits()) return;
  Budget budget;
  MemorySearchResult found = search_within_memory(tight, same, start, forbidden, budget);
  const Picoseconds best = enumerated_within_memory(tight, shares);
  if (best < forbidden) RC_ASSERT(found.bound <= best);
  if (found.best.fits()) RC_ASSERT(found.best.cost >= found.bound);
}

RC_GTEST_PROP(MemorySearch, BoundAndPlanEncloseTheBestThatFits, ()) {
  const Program program = random_program(2);
  const Cluster cluster = random_cluster();
  check_what_encloses_the_best(program, cluster, flat_mesh(cluster), 2e5);
}

RC_GTEST_PROP(MemorySearch, BoundAndPlanEncloseTheBestThatFitsOnTwoAxes, ()) {
  const Program program = random_program(1);
  const auto [cluster, mesh] = random_mesh();
  check_what_encloses_the_best(program, cluster, mesh, 2e5);
}

/// Layers of products, whose parameters take much of the memory, taken in turns.
Program layers_in_turns(int64_t turns) {
  Trace trace("layers.cpp");
  run_builder(trace, [] {
    auto [samples, labels] = synthetic_batch(64, 64, 64);
    Tensor x = samples;
    for (int layer = 0; layer < 4; ++layer)
      x = x + tanh(matmul(x, parameter("layer" + std::to_string(layer), {64, 64}, normal(0.05))));
    minimize(cross_entropy(x, labels), AdamW{});
  });
  return take_turns(differentiate(trace), {turns}).program.value();
}

/// Gathered parameters and sums of gradients stay through all turns, wherever in a turn memory is fullest.
TEST(MemorySearch, WhatAllTurnsKeepHasAPrice) {
  const Program step = layers_in_turns(8);
  const int64_t room = int64_t(1) << 40;
  const Cluster cluster = with_memory(cluster_of_speeds({1e12, 1e12, 1e12, 1e12}, 1e10, 1e-6, {}), room);
  const Problem problem(step, cluster);
  const AtShares even(problem, RatioRule::even);
  const auto begins_to_go_back = [](const Node& node) { return node.loop == 0 && node.phase == Phase::backward; };
  const NodeId moment = std::ranges::find_if(step.nodes, begins_to_go_back)->id;
  for (const Choices& choices : {data_parallel_choices(problem), even.cheapest({})}) {
    const Candidate candidate = candidate_at(problem, even.shares, choices);
    const double held = candidate.fullness[0] * double(room);
    MemoryPrice price;
    price.by_device = {1, 0, 0, 0};
    price.points = {{moment, price.by_device}};
    const auto paid = double(paid_for_memory(problem, even.conversions, even.shares, price, choices));
    EXPECT_GT(paid, 0.8 * held);
    EXPECT_LT(paid, 1.2 * held);
  }
}

TEST(MemorySearch, WhatIsMadeBeforeALoopIsConvertedOnceForAllTurns) {
  const Program step = layers_in_turns(8);
  const Problem problem(step, cluster_of_speeds({1e12, 1e12, 1e12, 1e12}, 1e10, 1e-6, {}));
  const AtShares even(problem, RatioRule::even);
  SearchInput input;
  input.memory.by_device = {1, 1, 1, 1};
  input.memory.points = {{step.loss, input.memory.by_device}};
  const PlanNetwork network = build_network(problem, even.conversions, even.shares, input);
  int parameters = 0, others = 0;
  for (const Node& node : step.nodes)
    for (size_t s = 0; s < network.sets.size(); ++s) {
      if (network.set_node[s] != node.id) continue;
      const auto apart = std::ranges::count(*network.sets[s], true, &FormSets::apart);
      parameters += node.kind == NodeKind::parameter ? int(apart) : 0;
      others += node.loop >= 0 ? int(apart) : 0;
    }
  EXPECT_EQ(parameters, 0);
  EXPECT_GT(others, 0);
}

/// A network's memory and time go by its values. Sets before and after the forward phase, all with all, were 200,000
/// for a tensor of four dimensions.
TEST(MemorySearch, APriceAddsFewSetsOfFormsOnTwoAxes) {
  Trace trace("attention.cpp");
  run_builder(trace, [] {
    auto [samples, labels] = synthetic_batch(16, 64, 64);
    Tensor hidden = reshape(matmul(samples, parameter("in", {64, 64}, normal(0.05))), {16, 4, 4, 4});
    Tensor mixed = tanh(hidden) + relu(hidden);
    minimize(cross_entropy(reshape(mixed, {16, 64}), labels), SGD{});
  });
  const Program program = differentiate(trace);
  const Cluster cluster = cluster_of_speeds({1e9, 1e9, 1e9, 1e9}, 1e9, 1e-6);
  const Problem problem(std::make_shared<const Analysis>(program, 2), cluster, mesh_of({2, 2}));
  const Shares shares = common_shares(problem.classes, fractions_of(problem, RatioRule::even));
  const Conversions conversions(*problem.analysis, problem.cost, shares);
  SearchInput priced;
  priced.memory.by_device.assign(4, 1e-3);
  const PlanNetwork network = build_network(problem, conversions, shares, priced);
  size_t longest = 0, apart = 0;
  for (const std::vector<FormSets>& sets : network.set_lists) {
    longest = std::max(longest, sets.size());
    for (const FormSets& set : sets) apart += set.apart;
  }
  EXPECT_GT(apart, 0u);
  EXPECT_LT(longest, 3000u);
}

/// A known program limits the bound at any price: where it shows that no bound is worth having, none is looked for.
RC_GTEST_PROP(MemoryBound, KnownProgramsLimitIt, ()) {
  const Program program = random_program(2);
  const Cluster cluster = with_memory(random_cluster(), 1 << 20);
  const Problem problem(std::make_shared<const Analysis>(program, 1), cluster, flat_mesh(cluster));
  const Shares shares = common_shares(problem.classes, fractions_of(problem, RatioRule::even));
  const Conversions conversions(*problem.analysis, problem.cost, shares);
  const Solution known = search(problem, conversions, shares, {}, {});
  const double price = double(*rc::gen::inRange(1, 1000)) / 100 * double(std::max<Picoseconds>(known.cost, 1000));
  SearchInput priced;
  priced.memory.least = true;
  priced.memory.by_device.assign(cluster.devices.size(), price / double(cluster.devices.size()) / (1 << 20));
  const double shown =
      double(known.cost) + double(paid_for_memory(problem, conversions, shares, priced.memory, known.choices)) - price;
  Budget budget;
  const SearchLimits limits;
  MemoryBound free(problem, conversions, shares, limits, budget), limited(problem, conversions, shares, limits, budget);
  limited.limit_by(known.choices);
  const Picoseconds bound = free.at(priced, price, 0);
  RC_ASSERT(double(bound) <= std::max(0.0, shown) + double(program.nodes.size()));  // prices are rounded by node
  RC_ASSERT(limited.at(priced, price, shown) == 0);
  RC_ASSERT(limited.at(priced, price, std::min(shown - 1, 0.0)) == bound);
}

/// The bound rests on this: what has a price there is in memory under every plan.
RC_GTEST_PROP(MemorySearch, WhatIsCertainlyInMemoryCostsNoMoreThanWhatPlansTake, ()) {
  const Program program = random_program(4);
  const Problem problem(program, random_cluster());
  const Shares shares = common_shares(problem.classes, fractions_of(problem, RatioRule::even));
  const Conversions conversions(*problem.analysis, problem.cost, shares);
  SearchInput priced;
  for (size_t d = 0; d < problem.cluster.devices.size(); ++d)
    priced.memory.by_device.push_back(*rc::gen::element(0.0, 1e2, 1e5));
  priced.memory.points = {{NodeId(program.nodes.size()) / 2, priced.memory.by_device}};
  const auto paid = [&](const Choices& choices) {
    double sum = double(total_cost(problem, conversions, shares, choices));
    const auto bytes = peak_memory(problem, shares, lower(problem, conversions, shares, choices));
    for (size_t d = 0; d < bytes.size(); ++d) sum += priced.memory.by_device[d] * double(bytes[d]);
    return sum;
  };
  SearchInput certain = priced;
  certain.memory.least = true;
  const Picoseconds bound = solve_wcsp(build_network(problem, conversions, shares, certain).network).lower_bound;
  RC_ASSERT(double(bound) <= paid(search(problem, conversions, shares, {}, {}).choices) * (1 + 1e-9) + 100);
  RC_ASSERT(double(bound) <= paid(search(problem, conversions, shares, priced, {}).choices) * (1 + 1e-9) + 100);
}

/// Choices cost in a network what they take time for and what they pay for memory.
RC_GTEST_PROP(MemorySearch, WhatChoicesPayForMemoryIsWhatTheNetworkAdds, ()) {
  const Program program = random_program(5);
  const Problem problem(program, random_cluster());
  const Shares shares = common_shares(problem.classes, fractions_of(problem, RatioRule::even));
  const Conversions conversions(*problem.analysis, problem.cost, shares);
  SearchInput priced;
  const size_t devices = problem.cluster.devices.size();
  priced.memory.by_device.assign(devices, 0);
  for (int part : {1, 3}) {
    MemoryPrice::Point point{NodeId(program.nodes.size()) * part / 4, {}};
    for (size_t d = 0; d < devices; ++d) {
      point.by_device.push_back(*rc::gen::element(0.0, 1e2, 1e5));
      priced.memory.by_device[d] += point.by_device.back();
    }
    priced.memory.points.push_back(std::move(point));
  }
  const Solution found = search(problem, conversions, shares, priced, {});
  RC_ASSERT(found.search.optimal());
  RC_ASSERT(found.cost == total_cost(problem, conversions, shares, found.choices));
  RC_ASSERT(found.cost + paid_for_memory(problem, conversions, shares, priced.memory, found.choices) ==
            found.search.cost);
}

/// From the fastest plan, which does not fit, prices lead to one that does, wherever there is one to be found so.
TEST(MemorySearch, PricesLeadToPlansThatFit) {
  const Program program = mlp(640, {60, 300, 300, 60});
  const Cluster roomy = cluster_of_speeds({4e9, 4e9, 1e9}, 1e9, 1e-6);
  const Problem free(program, roomy);
  const Shares shares = common_shares(free.classes, fractions_of(free, RatioRule::proportional));
  const Conversions conversions(*free.analysis, free.cost, shares);
  const Solution fastest = search(free, conversions, shares, {}, {});
  const std::vector<int64_t> need = peak_memory(free, shares, lower(free, conversions, shares, fastest.choices));
  Cluster little = roomy;
  for (size_t d = 0; d < need.size(); ++d) little.devices[d].memory_bytes = need[d] * (d < 2 ? 7 : 100) / 10;
  const Problem problem(program, little);
  Candidate start = make_candidate(problem, conversions, shares, fastest.choices, fastest.cost);
  ASSERT_FALSE(start.fits());
  Budget budget;
  Incumbent kept(budget, forbidden, 0);
  follow_memory_prices(problem, start, 0, &kept, budget);
  ASSERT_TRUE(kept.fits());
  EXPECT_LT(kept.best.cost, 2 * fastest.cost);
  const Conversions there(*problem.analysis, problem.cost, kept.best.shares);
  EXPECT_EQ(compare_with_reference(program, written_out(problem, kept.best), 5), "");
}

/// Of four devices two hold a sample; the rows of the tables make up for that, whether the devices are equal or not.
TEST(MemorySearch, DevicesWithAGranuleMoreOfSomethingHoldLessOfTheRest) {
  const Program program = samples_and_rows();
  SynthesisOptions options;
  options.pins.recompute = false;
  options.pins.placements = {{"hidden", "sharded(0)"}, {"table", "sharded(0)"}, {"w", "replicated"}};
  // On each: the weights, a fourth of the table and half a sample, of which none is cut, and less than a sample.
  const int64_t bytes = 4 * (32 * 4096 + 8192 * 32 / 4 + 32 * 4096 / 2) * 21 / 20, memory = memory_to_fill(bytes);
  for (const auto& speeds : {std::vector<double>{4e9, 4e9, 4e9, 4e9}, {5e9, 5e9, 4e9, 4e9}}) {
    const Plan plan =
        synthesize(program, cluster_of_speeds(speeds, 1e9, 1e-6, {memory, memory, memory, memory}), options);
    EXPECT_LE(fullest(plan), bytes);
    EXPECT_EQ(compare_with_reference(program, plan.program, 5), "");
    for (ValueId leaf : plan.program.leaves) {
      const Value& value = plan.program.values[leaf];
      if (value.name != "table") continue;
      const auto& rows = plan.program.tables[size_t(value.placements[0].table)].bounds;
      EXPECT_LT(rows[1] - rows[0], rows[4] - rows[3]);
    }
  }
}

/// Every mixture of a fast plan and a thrifty one is a plan, and what it costs adds up.
RC_GTEST_PROP(MemorySearch, PartsInWhichTwoPlansDifferAreIndependent, ()) {
  const Program program = random_program(4);
  const Problem problem(program, random_cluster());
  const Shares shares = common_shares(problem.classes, fractions_of(problem, RatioRule::even));
  const Conversions conversions(*problem.analysis, problem.cost, shares);
  const Solution fast = search(problem, conversions, shares, {}, {});
  SearchInput priced;
  priced.memory.by_device.assign(problem.cluster.devices.size(), *rc::gen::element(1e2, 1e5, 1e8));
  priced.memory.points = {{NodeId(program.nodes.size()) / 2, priced.memory.by_device}};
  const Solution thrifty = search(problem, conversions, shares, priced, {});
  const PlanMixture mixture(problem, conversions, shares, priced.memory, fast.choices, thrifty.choices);
  const auto cost = [&](size_t parts) { return total_cost(problem, conversions, shares, mixture.with(parts)); };
  RC_ASSERT(cost(0) + cost(mixture.count()) == fast.cost + thrifty.cost);
  const size_t parts = *rc::gen::inRange<size_t>(0, mixture.count() + 1);
  RC_ASSERT(cost(parts) < forbidden);
  const SpmdProgram mixed = lower(problem, conversions, shares, mixture.with(parts));
  RC_ASSERT(compare_with_reference(program, mixed, 5) == "");
}

RC_GTEST_PROP(MemorySearch, TheFloorIsBelowWhatPlansTake, ()) {
  Program program = random_program(6);
  Problem problem(program, random_cluster());
  for (RatioRule rule : {RatioRule::even, RatioRule::proportional}) {
    Shares shares = common_shares(problem.classes, fractions_of(problem, rule));
    Conversions conversions(*problem.analysis, problem.cost, shares);
    Choices choices = search(problem, conversions, shares, {}, {}).choices;
    double sum = 0;
    for (int64_t bytes : peak_memory(problem, shares, lower(problem, conversions, shares, choices)))
      sum += double(bytes);
    RC_ASSERT(memory_floor(problem).total() <= sum + double(problem.cost.device_count()));
  }
}

TEST(MemorySearch, TheGapIsSmallWhereLayersAreMany) {
  Program program = mlp(128, std::vector<int64_t>(17, 32));
  std::vector<double> speeds(4, 1e10);
  Cluster roomy = cluster_of_speeds(speeds, 1e9, 1e-9);
  const int64_t need = fullest(synthesize(program, roomy));
  for (int percent : {96, 92}) {
    const int64_t limit = need * percent / 100;
    Plan plan = synthesize(program, with_memory(roomy, limit));
    EXPECT_LE(fullest(plan), limit);
    EXPECT_GE(plan.prediction.lower_bound_seconds, 0.9 * plan.prediction.objective_seconds) << percent << " %";
  }
}

TEST(MemorySearch, SharesAreRefinedAlongTwoAxesOfUnequalDevices) {
  Program program = mlp(256, {64, 256, 256, 64});
  Cluster roomy = cluster_of_speeds({3e10, 3e10, 1e10, 1e10}, 1e9, 1e-9);
  roomy.hosts.push_back({"other", roomy.hosts[0].inside});
  roomy.between = {1e8, 1e-6};
  roomy.devices[2].host = roomy.devices[3].host = 1;
  SynthesisOptions options;
  options.pins.mesh = {2, 2};
  const int64_t need = fullest(synthesize(program, roomy, options));
  // By the bytes of each device: a little above the best that any search came to, 6.39 and 8.50 ms.
  const std::vector<std::pair<int64_t, double>> most_seconds{{900'000, 6.5e-3}, {750'000, 8.6e-3}};
  for (const auto& [limit, seconds] : most_seconds) {
    ASSERT_LT(limit, need);
    const Plan plan = synthesize(program, with_memory(roomy, memory_to_fill(limit)), options);
    EXPECT_LE(fullest(plan), limit);
    EXPECT_LE(plan.prediction.objective_seconds, seconds) << limit;
    EXPECT_LE(plan.prediction.lower_bound_seconds, plan.prediction.objective_seconds);
    EXPECT_LE(plan.prediction.shares_bound_seconds, plan.prediction.lower_bound_seconds);
  }
}

TEST(MemorySearch, ABatchTooLargeForTheClusterIsToBlame) {
  Program program = mlp(1 << 12, {64, 64, 64});
  try {
    synthesize(program, cluster_of_speeds({1e9, 1e9}, 1e9, 1e-6, {1 << 20, 1 << 20}));
    FAIL() << "a plan was found";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::infeasible);
    EXPECT_THAT(error.what(), HasSubstr("the memories of all 2 devices together are too small, whatever the plan"));
    EXPECT_THAT(error.what(), AllOf(HasSubstr("to mend:  a smaller batch, or more memory"),
                                    Not(HasSubstr("micro-batches")), Not(HasSubstr("--accumulate"))));
    EXPECT_THAT(error.what(), HasSubstr("2 MiB in all"));
  }
}

TEST(MemorySearch, AModelTooLargeForTheClusterIsToBlame) {
  Program program = mlp(2, {1024, 1024, 1024});
  try {
    synthesize(program, cluster_of_speeds({1e9, 1e9}, 1e9, 1e-6, {1 << 20, 1 << 20}));
    FAIL() << "a plan was found";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::infeasible);
    EXPECT_THAT(error.what(), HasSubstr("parameters 8 MiB"));
    EXPECT_THAT(error.what(), HasSubstr("a smaller model, or more memory"));
  }
}

}  // namespace
}  // namespace hetsynth
