// Pins: the best plan that keeps to what a user fixed, and named reasons where there is none.
#include "synth/model/pins.h"

#include <gmock/gmock.h>

#include <fstream>

#include "dsl/base/error.h"
#include "programs.h"
#include "synth/planner/synthesize.h"

namespace hetsynth {
namespace {

using namespace testing_support;
using ::testing::HasSubstr;

const std::vector<double> speeds{1e10, 1e10, 2e10, 2e10};

Plan planned(const Program& program, const PlanPins& pins) {
  SynthesisOptions options;
  options.drop_devices = true;
  options.pins = pins;
  return synthesize(program, cluster_of_speeds(speeds), options);
}

const Placement& kept(const Program& program, const Plan& plan, const std::string& name) {
  for (ValueId leaf : plan.program.leaves)
    if (program[plan.program.values[leaf].node].name == name) return plan.program.values[leaf].placements[0];
  throw std::runtime_error("no leaf " + name);
}

std::string message(auto&& work) {
  try {
    work();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Pins, APlacementIsKeptAtTheLeastCost) {
  const Program program = mlp(64, {32, 64, 32});
  const Plan free = planned(program, {});
  for (const char* placement : {"replicated", "sharded(0)", "sharded(1)"}) {
    PlanPins pins;
    pins.placements = {{"w1", placement}};
    const Plan plan = planned(program, pins);
    EXPECT_EQ(kept(program, plan, "w1").kind,
              std::string(placement) == "replicated" ? Placement::Kind::replicated : Placement::Kind::sharded);
    if (std::string(placement) == "sharded(1)") {
      EXPECT_EQ(kept(program, plan, "w1").dim, 1);
    }
    EXPECT_GE(plan.prediction.objective_seconds, free.prediction.objective_seconds * (1 - 1e-3));
    EXPECT_EQ(compare_with_reference(program, plan.program, 1), "");
  }
}

TEST(Pins, AForbiddenInstructionDoesNotOccur) {
  const Program program = mlp(64, {32, 64, 32});
  for (Opcode opcode : {Opcode::all_reduce, Opcode::reduce_scatter, Opcode::all_gather, Opcode::slice}) {
    PlanPins pins;
    pins.forbidden = {opcode};
    const Plan plan = planned(program, pins);
    for (const Instruction& i : plan.program.instructions) EXPECT_NE(i.opcode, opcode);
    EXPECT_EQ(compare_with_reference(program, plan.program, 1), "");
  }
}

TEST(Pins, ARatioAndAMeshAreKept) {
  const Program program = mlp(64, {32, 64, 32});
  PlanPins pins;
  pins.ratio = {1, 1, 1, 1};
  const Plan even = planned(program, pins);
  ASSERT_FALSE(even.program.tables.empty());
  for (const BoundaryTable& table : even.program.tables)
    EXPECT_EQ(table.bounds[1] * 4, table.bounds.back()) << table.name;
  pins = {};
  pins.mesh = {2, 2};
  const Plan plan = planned(program, pins);
  ASSERT_EQ(plan.program.mesh.axes.size(), 2u);
  EXPECT_EQ(plan.program.mesh.axes[0].size, 2);
  EXPECT_EQ(compare_with_reference(program, plan.program, 1), "");
}

TEST(Pins, ContradictionsAreNamedAndNothingElse) {
  const Program program = mlp(64, {32, 64, 32});
  PlanPins pins;
  pins.placements = {{"w1", "sharded(0)"}, {"w2", "replicated"}, {"w1", "replicated"}};
  const std::string text = message([&] { planned(program, pins); });
  EXPECT_THAT(text, HasSubstr("no plan keeps to these pins together"));
  EXPECT_THAT(text, HasSubstr("w1=sharded(0), w1=replicated"));
}

TEST(Pins, MistakesAreExplained) {
  const Program program = mlp(64, {32, 64, 32});
  PlanPins pins;
  pins.placements = {{"w11", "replicated"}};
  EXPECT_THAT(message([&] { planned(program, pins); }), HasSubstr("did you mean \"w1\"?"));
  pins.placements = {{"w1", "sharded(7)"}};
  EXPECT_THAT(message([&] { planned(program, pins); }),
              HasSubstr("one of \"replicated\", \"sharded(0)\", \"sharded(1)\""));
  pins = {};
  pins.ratio = {1, 2};
  EXPECT_THAT(message([&] { planned(program, pins); }), HasSubstr("4 numbers, not all 0"));
  pins = {};
  pins.mesh = {3, 2};
  EXPECT_THAT(message([&] { planned(program, pins); }), HasSubstr("sizes whose product is 4"));
  PlanPins none;
  EXPECT_THAT(message([&] { add_forbidden("allgather", &none); }), HasSubstr("did you mean \"all_gather\"?"));
  EXPECT_THAT(message([&] { parse_mesh("2x"); }), HasSubstr("such as \"8\" or \"2x4\""));
  EXPECT_THAT(message([&] { parse_pinned_placement("w1"); }), HasSubstr("NAME=PLACEMENT"));
}

TEST(Pins, AFileHoldsThemAll) {
  const std::string path = ::testing::TempDir() + "/pins.toml";
  std::ofstream(path) << "forbid = [\"all_to_all\", \"recompute\"]\nratio = [1, 2.5]\nmesh = [2, 4]\n[placement]\nw1 = "
                         "\"sharded(0)\"\n";
  const PlanPins pins = load_pins(path);
  ASSERT_EQ(pins.placements.size(), 1u);
  EXPECT_EQ(pins.placements[0].placement, "sharded(0)");
  EXPECT_EQ(pins.forbidden, std::vector<Opcode>{Opcode::all_to_all});
  EXPECT_FALSE(pins.recompute);
  EXPECT_EQ(pins.ratio, (std::vector<double>{1, 2.5}));
  EXPECT_EQ(pins.mesh, (std::vector<int>{2, 4}));
  std::ofstream(path) << "\nration = [1]\n";
  EXPECT_THAT(message([&] { load_pins(path); }), HasSubstr("pins.toml:2"));
  EXPECT_THAT(message([&] { load_pins(path); }), HasSubstr("did you mean \"ratio\"?"));
}

TEST(Pins, OfSeveralWrongLinesOfAFileTheFirstIsTold) {
  const std::string path = ::testing::TempDir() + "/pins.toml";
  std::ofstream(path) << "ration = [1]\nforbids = []\n";
  EXPECT_THAT(message([&] { load_pins(path); }), HasSubstr("pins.toml:1"));
  std::ofstream(path) << "[placement]\nw2 = 1\nw1 = 1\n";
  EXPECT_THAT(message([&] { load_pins(path); }), HasSubstr("pins.toml:2"));
}

}  // namespace
}  // namespace hetsynth
