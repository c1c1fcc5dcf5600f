// Schedules of loops: those that data allow, every kind of wrong one refused with part, turn and instruction, and what
// a schedule makes of a plan that is written out.
#include "dsl/spmd/loop_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>

#include "dsl/spmd/plan.h"
#include "dsl/spmd/unroll.h"
#include "dsl/transform/differentiate.h"
#include "dsl/transform/turns.h"
#include "hetsynth/hetsynth.h"
#include "synth/baselines/baselines.h"
#include "synth/stages/stage_positions.h"
#include "synth/stages/stage_schedule.h"
#include "synth/stages/staged_plan.h"
#include "verify/rules/form.h"
#include "verify/verify.h"

namespace hetsynth {
namespace {

using namespace synth;
using ::testing::HasSubstr;

constexpr int64_t turns = 4;

/// Three layers, a turn of one sample each.
Program layers_in_turns() {
  Trace trace("layers.cpp", {});
  run_builder(trace, [] {
    auto [x, labels] = synthetic_batch(turns, 6, 6);
    for (int layer = 0; layer < 3; ++layer)
      x = relu(einsum("bk,kn->bn", x, parameter("w" + std::to_string(layer), {6, 6}, normal(0.5))));
    minimize(cross_entropy(x, labels), SGD{.learning_rate = 0.1});
  });
  return take_turns(differentiate(trace), {turns}).program.value();
}

struct Pipelined {
  Program program = layers_in_turns();
  SpmdProgram plan;

  explicit Pipelined(int stages = 2) {
    const Cluster one = local_cluster(1);
    const Problem problem(std::make_shared<const Analysis>(program, 0), one, flat_mesh(one));
    const SpmdProgram group = AtShares(problem, {{1.0}}, {}).plan(replicated_choices(problem), "one").program;
    const StagePositions positions = stage_positions(program);
    StageCuts cuts;
    for (int s = 1; s <= stages; ++s) {
      cuts.ends.push_back(positions.count * s / stages);
      cuts.stage.push_back(s - 1);
    }
    plan = staged_plan(program, group, positions, cuts);
    std::vector<PartCost> costs(plan.schedules[0].parts.size());
    for (size_t part = 0; part < costs.size(); ++part) {
      const bool sends = part % 2 == 1;
      costs[part].seconds = sends ? 0.2 : 1;
      const int segment = std::min(int(part) / 2, 2 * (stages - 1) - int(part) / 2);
      costs[part].stages = {segment};
      if (sends) costs[part].receivers.push_back(std::min(segment + 1, stages - 1));
    }
    plan.schedules[0].order =
        one_forward_one_backward(costs, turns, std::vector<int>(size_t(stages), stages), Sending::by_direction).order;
  }

  LoopSchedule& schedule() { return plan.schedules[0]; }
  LoopSchedule::Run& run(int part, int64_t turn) {
    return *std::ranges::find(schedule().order, LoopSchedule::Run{part, turn});
  }
};

TEST(LoopSchedule, OverlapsTurnsAndIsProved) {
  for (const int stages : {1, 2, 3}) {
    Pipelined at(stages);
    const auto flaw = flaw_of(at.program, at.plan);
    ASSERT_FALSE(flaw) << flaw->text;
    const bool overlaps = !std::ranges::is_sorted(at.schedule().order, {}, &LoopSchedule::Run::turn);
    EXPECT_EQ(overlaps, stages > 1);
    const Verification proof = verify(at.program, at.plan);
    EXPECT_EQ(proof.verdict, Verdict::proved) << proof.summary;
  }
}

TEST(LoopSchedule, WritesOutInItsOrder) {
  Pipelined at;
  const UnrolledPlan flat = unroll(at.program, at.plan);
  EXPECT_FALSE(flaw_of(flat.reference, flat.program)) << flaw_of(flat.reference, flat.program)->text;
  EXPECT_TRUE(flat.program.schedules.empty());
  const std::vector<LoopSpan> spans = loop_spans(at.program, at.plan);
  const std::vector<int> bounds = part_bounds(at.schedule(), spans.at(0));
  std::vector<int> wanted;  // parts, as they are taken
  for (const auto& [part, turn] : at.schedule().order) wanted.push_back(part);
  std::vector<int> found;
  int64_t counted = 0;
  for (const int from : flat.instruction_of) {
    if (from < bounds.front() || from >= bounds.back()) continue;
    const int part = int(std::ranges::upper_bound(bounds, from) - bounds.begin()) - 1;
    if (found.empty() || found.back() != part || counted == at.schedule().parts[size_t(part)]) {
      found.push_back(part);
      counted = 0;
    }
    ++counted;
  }
  // What a loop begins its turns with is there once, so a part may be shorter in later turns, never empty here.
  EXPECT_EQ(found, wanted);
  const Verification proof = verify(flat.reference, flat.program);
  EXPECT_EQ(proof.verdict, Verdict::proved) << proof.summary;
}

TEST(LoopSchedule, IsKeptInThePlanFile) {
  Pipelined at;
  Plan plan = identify_plan(at.program, local_cluster(2));
  plan.program = canonical(at.plan);
  EXPECT_EQ(plan_from_json(plan_to_json(plan, at.program), "plan.json", at.program).program, plan.program);
}

struct Wrong {
  std::string name;
  std::function<void(Pipelined&)> edit;
  std::string says;
};

void PrintTo(const Wrong& wrong, std::ostream* out) { *out << wrong.name; }

void swap_runs(Pipelined& at, LoopSchedule::Run a, LoopSchedule::Run b) {
  std::swap(at.run(a.part, a.turn), at.run(b.part, b.turn));
}

class WrongSchedule : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongSchedule, IsRefused) {
  Pipelined at;
  GetParam().edit(at);
  const auto flaw = flaw_of(at.program, at.plan);
  ASSERT_TRUE(flaw);
  EXPECT_THAT(flaw->text, HasSubstr(GetParam().says));
  EXPECT_EQ(verify(at.program, at.plan).verdict, Verdict::refuted);
}

const std::vector<Wrong> wrong_schedules = {
    {"ATurnLeftOut", [](Pipelined& at) { at.schedule().order.pop_back(); }, "takes 19 parts of turns"},
    {"ATurnTwice",
     [](Pipelined& at) {
       at.run(0, 3) = {0, 2};
     },
     "takes part 0 of turn 2 where turn 3 is next"},
    {"APartTooMany",
     [](Pipelined& at) {
       at.schedule().order.push_back({0, 0});
     },
     "takes 21 parts of turns"},
    {"AForeignTurn", [](Pipelined& at) { at.run(0, 3).turn = turns; }, "takes part 0 of turn 4, which there is not"},
    {"ANegativeTurn", [](Pipelined& at) { at.run(0, 0).turn = -1; }, "takes part 0 of turn -1, which there is not"},
    {"AForeignPart", [](Pipelined& at) { at.run(0, 3).part = 9; }, "takes part 9 of turn 3, which there is not"},
    {"TurnsOutOfOrder",
     [](Pipelined& at) {
       swap_runs(at, {0, 2}, {0, 3});
     },
     "takes part 0 of turn 3 where turn 2 is next"},
    {"ReadBeforeItIsSent",
     [](Pipelined& at) {
       swap_runs(at, {1, 0}, {2, 0});
     },
     "takes part 2 of turn 0, which reads"},
    {"SentBeforeItIsMade",
     [](Pipelined& at) {
       swap_runs(at, {0, 0}, {1, 0});
     },
     "takes part 1 of turn 0, which reads"},
    {"BackwardBeforeForward",
     [](Pipelined& at) {
       swap_runs(at, {3, 3}, {4, 3});
     },
     "takes part 4 of turn 3, which reads"},
    {"AnEmptyPart", [](Pipelined& at) { at.schedule().parts.push_back(0); }, "has a part without instructions"},
    {"PartsTooLong", [](Pipelined& at) { ++at.schedule().parts[0]; }, "instructions into parts, but the loop has"},
    {"PartsTooShort", [](Pipelined& at) { --at.schedule().parts[0]; }, "instructions into parts, but the loop has"},
    {"GivenTwice", [](Pipelined& at) { at.plan.schedules.push_back(at.schedule()); }, "is given twice"},
    {"OfNoLoop", [](Pipelined& at) { at.schedule().loop = 7; }, "belongs to no loop of the plan"},
    {"OfALoopBelowZero", [](Pipelined& at) { at.schedule().loop = -1; }, "belongs to no loop of the plan"},
};
INSTANTIATE_TEST_SUITE_P(Gallery, WrongSchedule, ::testing::ValuesIn(wrong_schedules),
                         [](const auto& info) { return info.param.name; });

/// A run that was moved elsewhere: accepted only if, by a check of its own, all still comes behind what it reads.
bool in_order(const Pipelined& at) {
  const auto& order = at.plan.schedules[0].order;
  for (size_t i = 0; i < order.size(); ++i)
    for (size_t j = i + 1; j < order.size(); ++j) {
      if (order[i].turn == order[j].turn && order[i].part > order[j].part) return false;  // a chain
      if (order[i].part == order[j].part && order[i].turn > order[j].turn) return false;
    }
  return true;
}

/// A thousand of them.
RC_GTEST_PROP(LoopScheduleMutants, AreAcceptedOnlyInOrder, ()) {
  static const Pipelined two(2), three(3);
  for (int mutant = 0; mutant < 10; ++mutant) {
    Pipelined at = *rc::gen::arbitrary<bool>() ? two : three;
    auto& order = at.schedule().order;
    const int moves = *rc::gen::inRange(1, 4);
    for (int move = 0; move < moves; ++move) {
      const auto from = *rc::gen::inRange<size_t>(0, order.size()), to = *rc::gen::inRange<size_t>(0, order.size());
      const LoopSchedule::Run run = order[from];
      order.erase(order.begin() + long(from));
      order.insert(order.begin() + long(to), run);
    }
    const bool right = in_order(at);
    RC_CLASSIFY(right);
    RC_ASSERT(!flaw_of(at.program, at.plan, at.schedule()) == right);
  }
}

}  // namespace
}  // namespace hetsynth
