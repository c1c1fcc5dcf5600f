// Values made twice, so as not to be kept: the program stays right whichever are taken, and plans fit that did not.
#include "synth/memory/recompute.h"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <functional>

#include "dsl/base/error.h"
#include "dsl/spmd/recomputation.h"
#include "programs.h"
#include "synth/baselines/baselines.h"
#include "synth/planner/synthesize.h"
#include "synth/schedule/lower.h"
#include "synth/schedule/price.h"
#include "synth/schedule/schedule.h"

namespace hetsynth {
namespace {

using namespace synth;
using namespace testing_support;
using ::testing::HasSubstr;

int count_again(const SpmdProgram& program) {
  const std::vector<char> again = made_again(program);
  return int(std::count(again.begin(), again.end(), 1));
}

/// Layers whose activations take far more than their parameters.
Program deep_mlp() { return mlp(2048, std::vector<int64_t>(9, 16)); }

Plan planned(const Program& program, int64_t memory, const PlanPins& pins = {}) {
  SynthesisOptions options;
  options.pins = pins;
  return synthesize(program, cluster_of_speeds({2e10, 1e10}, 1e9, 1e-6, {memory, memory}), options);
}

/// Some layers, few samples.
Program drawn_mlp() {
  std::vector<int64_t> widths;
  for (int i = 0; i < *rc::gen::inRange(2, 6); ++i) widths.push_back(*rc::gen::inRange(1, 9));
  return mlp(*rc::gen::inRange(1, 9), widths);
}

Choices drawn_choices(const Problem& problem, const AtShares& at) {
  return *rc::gen::inRange(0, 2) ? data_parallel_choices(problem) : at.cheapest({});
}

/// Any of the values that the forward phase makes.
std::vector<ValueId> drawn_values(const Program& program, const SpmdProgram& plan) {
  std::vector<ValueId> values;
  for (const Instruction& instruction : plan.instructions)
    if (program[plan.values[instruction.result].node].phase == Phase::forward && *rc::gen::inRange(0, 2))
      values.push_back(instruction.result);
  return values;
}

/// Whatever the other was, names and causes included.
RC_GTEST_PROP(Recompute, AProgramIsWrittenOverAnotherAsItIsAnew, ()) {
  const Program program = drawn_mlp();
  const Problem problem(program, cluster_of_speeds({3e9, 1e9, 2e9}));
  const AtShares at(problem, RatioRule::proportional);
  const auto lowered = [&](const Choices& choices, Wording wording, SpmdProgram scrap) {
    return lower(problem, at.conversions, at.shares, choices, wording, std::move(scrap));
  };
  SpmdProgram other = lowered(drawn_choices(problem, at), Wording::full, {});
  other = with_recomputed(problem, other, drawn_values(program, other));
  const Choices choices = drawn_choices(problem, at);
  for (Wording wording : {Wording::none, Wording::full})
    RC_ASSERT(lowered(choices, wording, other) == lowered(choices, wording, {}));
}

TEST(Recompute, AProgramNobodyNeedsIsWrittenOverNext) {
  const auto pool = std::make_shared<ProgramPool>();
  SpmdProgram program;
  program.instructions.resize(3);
  std::shared_ptr<const SpmdProgram> kept = pool->keep(program), also = kept;
  kept.reset();
  EXPECT_TRUE(pool->scrap().instructions.empty()) << "someone needs it still";
  also.reset();
  EXPECT_EQ(pool->scrap().instructions.size(), 3u);
  EXPECT_TRUE(pool->scrap().instructions.empty()) << "it was there once";
}

RC_GTEST_PROP(Recompute, AnyValuesMayBeMadeTwice, ()) {
  const Program program = drawn_mlp();
  const Problem problem(program, cluster_of_speeds({3e9, 1e9, 2e9}));
  const AtShares at(problem, RatioRule::proportional);
  const SpmdProgram plan = lower(problem, at.conversions, at.shares, drawn_choices(problem, at));
  const SpmdProgram twice = with_recomputed(problem, plan, drawn_values(program, plan));
  RC_ASSERT(compare_with_reference(program, twice, 7) == "");
  RC_ASSERT(twice.instructions.size() >= plan.instructions.size());
}

/// Some layers, whose activations take more than their parameters.
Program drawn_wide_batch() {
  std::vector<int64_t> widths;
  for (int i = 0; i < *rc::gen::inRange(2, 7); ++i) widths.push_back(*rc::gen::inRange(1, 9));
  return mlp(64 * *rc::gen::inRange(1, 33), widths);
}

/// With memories that are about as large as what a plan needs, each of at least this part of it.
Cluster drawn_tight_cluster(const Program& program, const std::function<SpmdProgram(const AtShares&)>& planned,
                            int least_percent) {
  const Problem roomy(program, cluster_of_speeds({3e9, 1e9, 2e9}));
  const AtShares there(roomy, RatioRule::proportional);
  std::vector<int64_t> limits;
  for (int64_t bytes : peak_memory(roomy, there.shares, planned(there)))
    limits.push_back(bytes * *rc::gen::inRange(least_percent, 103) / 100 + 1);
  return cluster_of_speeds({3e9, 1e9, 2e9}, 1e9, 1e-6, limits);
}

RC_GTEST_PROP(Recompute, NoPlanTakesLessMemoryThanItsFloor, ()) {
  const Program program = drawn_wide_batch();
  const bool data_parallel = *rc::gen::inRange(0, 2);
  const auto planned = [&](const AtShares& at) {
    return lower(at.problem, at.conversions, at.shares,
                 data_parallel ? data_parallel_choices(at.problem) : at.cheapest({}));
  };
  const Problem problem(program, drawn_tight_cluster(program, planned, 70));
  const AtShares at(problem, RatioRule::proportional);
  const SpmdProgram plan = planned(at);
  const std::vector<Absence> order = recompute_order(problem, plan, *rc::gen::inRange(0, 3));
  const size_t least = RecomputeFloor(problem, plan, order).least_count();
  std::vector<ValueId> again;
  for (size_t count = 0; count <= order.size(); ++count) {
    if (count > 0) again.push_back(order[count - 1].value);
    Candidate twice;
    twice.shares = at.shares;
    twice.spmd = std::make_shared<SpmdProgram>(with_recomputed(problem, plan, again));
    measure_memory(problem, &twice);
    RC_ASSERT(count >= least || !twice.fits());
    if (count == 0) RC_ASSERT(twice.fits() == (least == 0));
  }
  RC_CLASSIFY(least > 0 && least <= order.size(), "some number may be enough");
}

/// What cannot be cheaper than the plan to beat is given up early, and nothing else is.
RC_GTEST_PROP(Recompute, WithAPlanToBeatTheSameIsFoundIfItIsCheaper, ()) {
  const Program program = drawn_wide_batch();
  const auto by_batch = [&](const AtShares& at) {
    return lower(at.problem, at.conversions, at.shares, data_parallel_choices(at.problem));
  };
  const Problem problem(program, drawn_tight_cluster(program, by_batch, 92));
  const AtShares at(problem, RatioRule::proportional);
  const Choices choices = data_parallel_choices(problem);
  const Picoseconds cost = total_cost(problem, at.conversions, at.shares, choices);
  const Candidate candidate = make_candidate(problem, at.conversions, at.shares, choices, cost);
  RC_PRE(!candidate.fits());
  const std::optional<Candidate> free = recomputed_to_fit(problem, candidate, forbidden);
  const Picoseconds dearer = free ? free->cost - cost : cost / 2;
  const Picoseconds to_beat = cost + dearer * *rc::gen::inRange(0, 200) / 100;
  const std::optional<Candidate> found = recomputed_to_fit(problem, candidate, to_beat);
  RC_ASSERT(found.has_value() == (free && free->cost < to_beat));
  if (found) RC_ASSERT(found->recomputed == free->recomputed && found->cost == free->cost);
  RC_CLASSIFY(found.has_value(), "cheaper than the plan to beat");
}

TEST(Recompute, OfWhatNeverFitsTheMostThriftyFormIsTold) {
  const Program program = deep_mlp();
  Problem problem(program, cluster_of_speeds({2e10, 1e10}, 1e9, 1e-6, {1 << 16, 1 << 16}));
  const AtShares at(problem, RatioRule::proportional);
  const Candidate candidate = make_candidate(problem, at.conversions, at.shares, data_parallel_choices(problem), 0);
  EXPECT_FALSE(recomputed_to_fit(problem, candidate, forbidden).has_value());
  const Candidate thrifty = recomputed_to_be_thrifty(problem, candidate);
  EXPECT_LT(thrifty.fullest(), 0.8 * candidate.fullest());
  EXPECT_EQ(compare_with_reference(program, *thrifty.spmd, 7), "");
  problem.recompute = false;
  EXPECT_TRUE(recomputed_to_be_thrifty(problem, candidate).recomputed.empty());
}

/// Candidates are measured without names and causes, and written out with them in the end.
RC_GTEST_PROP(Recompute, WrittenOutACandidateDoesTheSame, ()) {
  const Program program = drawn_mlp();
  const Problem problem(program, cluster_of_speeds({3e9, 1e9, 2e9}));
  const AtShares at(problem, RatioRule::proportional);
  Candidate candidate = make_candidate(problem, at.conversions, at.shares, drawn_choices(problem, at), 0);
  candidate.recomputed = drawn_values(program, *candidate.spmd);
  SpmdProgram brief = with_recomputed(problem, *candidate.spmd, candidate.recomputed);
  SpmdProgram full = written_out(problem, candidate);
  RC_ASSERT(peak_memory(problem, at.shares, brief) == peak_memory(problem, at.shares, full));
  for (Value& value : full.values) {
    RC_ASSERT(!value.name.empty());
    value.name.clear();
  }
  for (SpmdProgram* written : {&brief, &full})
    for (Instruction& instruction : written->instructions) instruction.cause.clear();
  RC_ASSERT(brief == full);
}

TEST(Recompute, APlanFitsThatDidNot) {
  const Program program = deep_mlp();
  const Plan roomy = planned(program, int64_t(1) << 40);
  EXPECT_EQ(count_again(roomy.program), 0);
  const int64_t limit = fullest(roomy) * 6 / 10;
  PlanPins once;
  once.recompute = false;
  try {
    planned(program, limit, once);
    FAIL() << "activations of this batch do not fit if they are kept";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::infeasible);
  }
  const Plan tight = planned(program, limit);
  EXPECT_LE(fullest(tight), limit);
  EXPECT_GT(count_again(tight.program), 0);
  EXPECT_EQ(compare_with_reference(program, tight.program, 1), "");
  // Beside the work that is done twice, a forward pass of three at most, nothing got slower.
  EXPECT_LE(tight.prediction.objective_seconds, roomy.prediction.objective_seconds * 4 / 3);
  EXPECT_LE(tight.prediction.lower_bound_seconds, tight.prediction.objective_seconds);
  EXPECT_FALSE(tight.prediction.optimal);
}

TEST(Recompute, MoreMemoryNeverCostsTime) {
  const Program program = deep_mlp();
  const int64_t need = fullest(planned(program, int64_t(1) << 40));
  double before = HUGE_VAL;
  for (int percent : {55, 65, 75, 85, 95, 105}) {
    const Plan plan = planned(program, need * percent / 100);
    EXPECT_LE(plan.prediction.objective_seconds, before * 1.001) << percent << " %";
    before = plan.prediction.objective_seconds;
  }
}

TEST(Recompute, ThePriceIsThatOfEveryInstruction) {
  const Program program = deep_mlp();
  const int64_t limit = fullest(planned(program, int64_t(1) << 40)) * 6 / 10;
  const Plan plan = planned(program, limit);
  const Cluster cluster = cluster_of_speeds({2e10, 1e10}, 1e9, 1e-6, {limit, limit});
  EXPECT_DOUBLE_EQ(step_seconds(price_instructions(program, plan.program, cluster)), plan.prediction.objective_seconds);
}

TEST(Recompute, APlanFileKeepsTheCopies) {
  const Program program = deep_mlp();
  const Plan plan = planned(program, fullest(planned(program, int64_t(1) << 40)) * 6 / 10);
  const Plan read = plan_from_json(plan_to_json(plan, program), "plan.json", program);
  EXPECT_EQ(read.program, canonical(plan.program));
  EXPECT_EQ(count_again(read.program), count_again(plan.program));
}

}  // namespace
}  // namespace hetsynth
