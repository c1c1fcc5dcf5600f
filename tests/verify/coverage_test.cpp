// What plans may contain, each on two mesh axes with uneven and empty shares: the right plan is proved, the plan with
// one movement spoilt is refuted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "tests/support/propagated_plan.h"
#include "verify/solver/solver.h"
#include "verify/verify.h"

namespace covered_gpt {
#include "examples/gpt.cpp"
}

namespace hetsynth {
namespace {

using namespace test;
using Settings = std::map<std::string, std::string>;

Program gpt(const Settings& more) {
  Settings settings{{"layers", "1"}, {"heads", "2"}, {"width", "4"}, {"batch", "6"}, {"seq", "3"}};
  for (const auto& [name, value] : more) settings[name] = value;
  Trace trace("gpt.cpp", settings);
  run_builder(trace, covered_gpt::model);
  return differentiate(trace);
}

/// A transformer's matrices by heads and hidden units, the batch by rows.
int megatron(const Node& leaf, int axis) {
  auto named = [&](const char* part) { return leaf.name.find(part) != std::string::npos; };
  if (leaf.kind == NodeKind::input) return axis == 0 ? 0 : -1;
  if (axis == 0 || leaf.type.shape.size() < 2) return -1;
  if (named(".out") || named(".down.weight")) return 0;
  return named("attn.") || named(".up.weight") ? 1 : -1;
}

struct Feature {
  std::string name;
  Settings settings;
};
void PrintTo(const Feature& f, std::ostream* out) { *out << f.name; }

class Coverage : public ::testing::TestWithParam<Feature> {};
INSTANTIATE_TEST_SUITE_P(Of, Coverage,
                         ::testing::Values(Feature{"plain", {}}, Feature{"dropout", {{"dropout", "0.2"}}},
                                           Feature{"micro_batches", {{"micro_batches", "2"}, {"batch", "12"}}},
                                           Feature{"checkpoint", {{"checkpoint", "1"}}},
                                           Feature{"bf16", {{"precision", "bf16"}}},
                                           Feature{"fp16", {{"precision", "fp16"}}}),
                         [](const auto& info) { return info.param.name; });

TEST_P(Coverage, TwoAxesAreProvedWhateverTheShares) {
  const Program program = gpt(GetParam().settings);
  for (const CutAxis& dp :
       {CutAxis{"dp", 2, {0, 1, 3}}, CutAxis{"dp", 2, {0, 0, 3}}, CutAxis{"dp", 4, {0, 1, 1, 2, 3}}})
    for (const CutAxis& tp :
         {CutAxis{"tp", 2, {0, 1, 2}}, CutAxis{"tp", 2, {0, 2, 2}}, CutAxis{"tp", 3, {0, 1, 2, 2}}}) {
      const Verification v = verify(program, propagated_plan(program, {dp, tp}, megatron));
      EXPECT_EQ(v.verdict, Verdict::proved) << v.summary << "\n" << v.counterexample.text;
    }
}

TEST_P(Coverage, EveryKindOfMovementMatters) {
  const Program program = gpt(GetParam().settings);
  const SpmdProgram plan = propagated_plan(program, {{"dp", 2, {0, 1, 3}}, {"tp", 2, {0, 1, 2}}}, megatron);
  std::map<std::tuple<Opcode, int, Phase>, int> tried;
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction& movement = plan.instructions[i];
    if (movement.opcode != Opcode::all_reduce && movement.opcode != Opcode::all_gather) continue;
    const Phase phase = program[plan.values[size_t(movement.result)].node].phase;
    if (++tried[{movement.opcode, movement.axis, phase}] > 2) continue;
    SpmdProgram spoilt = plan;
    spoilt.instructions[i].opcode = Opcode::broadcast;
    const Verification v = verify(program, spoilt);
    EXPECT_EQ(v.verdict, Verdict::refuted) << movement.cause << ": " << v.summary;
    EXPECT_FALSE(v.counterexample.text.empty());
  }
  EXPECT_GE(tried.size(), 4u);
}

/// Premises that contradict each other through a chain of random length never prove anything; without one link of the
/// chain the answer depends on the goal.
TEST(Vacuity, SeededContradictionsNeverProve) {
  const uint64_t seed = std::random_device()();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937_64 random(seed);
  smt::Solver solver(smt::Clock::now() + std::chrono::seconds(60));
  for (int round = 0; round < 60; ++round) {
    const int length = 2 + int(random() % 7);
    std::vector<smt::Term> symbols, premises;
    for (int i = 0; i < length; ++i) symbols.push_back(solver.integer_symbol("s" + std::to_string(i)));
    for (int i = 0; i < length; ++i)
      premises.push_back(solver.less(symbols[size_t(i)], symbols[size_t((i + 1) % length)]));
    std::vector<smt::Term> open(premises.begin(), premises.end() - 1);
    std::shuffle(premises.begin(), premises.end(), random);
    for (const smt::Term& goal : {solver.equal(symbols[0], symbols[1]), solver.less(symbols[1], symbols[0]),
                                  solver.less_equal(symbols[0], symbols[size_t(length - 1)])}) {
      EXPECT_EQ(solver.prove(premises, goal), smt::Answer::vacuous) << "seed " << seed;
    }
    EXPECT_EQ(solver.prove(open, solver.less(symbols[0], symbols[size_t(length - 1)])), smt::Answer::proved);
    EXPECT_EQ(solver.prove(open, solver.less(symbols[size_t(length - 1)], symbols[0])), smt::Answer::disproved);
  }
}

}  // namespace
}  // namespace hetsynth
