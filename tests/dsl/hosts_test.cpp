// Groups on hosts, and plans that say which devices share one.
#include "dsl/spmd/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tests/support/plan_fixture.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Mesh square{{{"rows", 3}, {"columns", 2}}};

TEST(Hosts, OfAGroupAreRunsOfCoordinates) {
  const std::vector<int> hosts{0, 0, 0, 1, 1, 2};
  const GroupHosts along_rows = hosts_of_group(square, hosts, 0, 5);  // ranks 1, 3, 5
  EXPECT_THAT(along_rows.first, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(along_rows.host, 2);
  const GroupHosts first = hosts_of_group(square, hosts, 0, 2);  // ranks 0, 2, 4
  EXPECT_THAT(first.first, ElementsAre(0, 2, 3));
  EXPECT_EQ(first.host, 0);
  EXPECT_EQ(first.members(0), 2);
  EXPECT_THAT(first.by_coordinate(), ElementsAre(0, 0, 1));
  for (int coordinate = 0; coordinate < 3; ++coordinate) {
    EXPECT_EQ(first.host_of(coordinate), coordinate == 2);
    EXPECT_EQ(first.here(coordinate), coordinate < 2);
    EXPECT_EQ(along_rows.host_of(coordinate), coordinate);
  }
  EXPECT_THAT(bounds_by_host(first, std::vector<int64_t>{0, 5, 5, 12}), ElementsAre(0, 5, 12));
}

TEST(Hosts, SayWhyACollectiveCannotGoByThem) {
  SpmdProgram program;
  program.mesh = {{{"dp", 3}, {"tp", 2}}};
  Instruction i;
  i.opcode = Opcode::all_reduce;
  i.axis = 0;
  EXPECT_THAT(why_not_hierarchical(program, i), HasSubstr("the plan does not say which devices share a host"));
  program.hosts = {0, 0, 0, 0, 1, 1};
  EXPECT_EQ(why_not_hierarchical(program, i), "");
  i.reduce = ReduceOp::average;
  EXPECT_THAT(why_not_hierarchical(program, i), HasSubstr("all_reduce over dp takes the average"));
  i.opcode = Opcode::all_gather;
  EXPECT_EQ(why_not_hierarchical(program, i), "");
  for (Opcode opcode : {Opcode::all_to_all, Opcode::broadcast}) {
    i.opcode = opcode;
    EXPECT_EQ(why_not_hierarchical(program, i), "");
  }
  for (Opcode opcode : {Opcode::send, Opcode::halo_exchange}) {
    i.opcode = opcode;
    EXPECT_THAT(why_not_hierarchical(program, i), HasSubstr(" over dp has no hierarchical form: all_reduce, "));
  }
  i.opcode = Opcode::reduce_scatter;
  i.reduce = ReduceOp::sum;
  i.axis = 1;
  EXPECT_THAT(why_not_hierarchical(program, i), HasSubstr("each of its groups lies on one host"));
  i.axis = 0;
  program.hosts = {0, 0, 1, 1, 2, 2};
  EXPECT_THAT(why_not_hierarchical(program, i), HasSubstr("no host holds two devices of a group"));
}

/// Three devices on two hosts, and everything hierarchical that can be: the loss is reduced, and on a detour parts are
/// gathered, scattered and exchanged, and copies handed out.
struct Hierarchical {
  Program reference = testing::plan_test_program();
  Plan plan;
  explicit Hierarchical(bool detour = false)
      : plan(detour ? testing::plan_test_detour(reference) : testing::plan_test_plan(reference)) {
    plan.devices.push_back(plan.devices.back());
    plan.devices.back().name = "third";
    plan.ratios = {{0.5, 0.25, 0.25}};
    plan.prediction.devices.push_back(plan.prediction.devices.back());
    plan.prediction.devices.back().device = "third";
    plan.program.mesh.axes[0].size = 3;
    for (BoundaryTable& table : plan.program.tables) table.bounds.insert(table.bounds.begin() + 1, 0);
    plan.program.hosts = {0, 0, 1};
    for (Instruction& i : plan.program.instructions)
      if (has_levels(i.opcode)) i.realisation = Realisation::hierarchical;
  }
  std::string json() const { return plan_to_json(plan, reference); }
  std::string error(const std::string& from, const std::string& to) const {
    std::string text = json();
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    return error_of([&] { plan_from_json(text, "p.json", reference); });
  }
};

TEST(HostsInPlans, AreWrittenAndReadBack) {
  const Hierarchical h;
  const std::string json = h.json();
  EXPECT_THAT(json, AllOf(HasSubstr("\n    \"hosts\": [0, 0, 1],\n"), HasSubstr("\"realisation\": \"hierarchical\"")));
  const Plan read = plan_from_json(json, "p.json", h.reference);
  EXPECT_EQ(read.program, canonical(h.plan.program));
  EXPECT_EQ(plan_to_json(read, h.reference), json);
  EXPECT_THAT(text(read.program, h.reference), AllOf(HasSubstr("hosts 0,0,1\n"), HasSubstr(" sum hierarchical")));
}

TEST(HostsInPlans, GoWithEveryCollectiveThatHasLevels) {
  const Hierarchical h(true);
  const std::string json = h.json(), shown = text(h.plan.program, h.reference);
  const Plan read = plan_from_json(json, "p.json", h.reference);
  EXPECT_EQ(read.program, canonical(h.plan.program));
  EXPECT_EQ(plan_to_json(read, h.reference), json);
  for (const char* opcode : {"all_gather", "broadcast", "all_reduce", "reduce_scatter", "all_to_all"})
    EXPECT_THAT(shown, ::testing::ContainsRegex(std::string(opcode) + ".* hierarchical")) << opcode;
  // The broadcast is hierarchical, too, and says so where it cannot be.
  const std::string without = h.error("    \"hosts\": [0, 0, 1],\n", "");
  EXPECT_THAT(without, AllOf(HasSubstr("the plan does not say which devices share a host"),
                             HasSubstr("\"hosts\" beside \"mesh\""), HasSubstr("choose another realisation")));
  EXPECT_THAT(h.error("[0, 0, 1]", "[0, 1, 2]"), HasSubstr("no host holds two devices of a group"));
}

TEST(HostsInPlans, ThatCannotBeMeantAreRefused) {
  const Hierarchical h;
  const std::string hosts = "\"hosts\": [0, 0, 1]";
  EXPECT_THAT(h.error(hosts, "\"hosts\": [0, 0]"),
              AllOf(HasSubstr("p.json:"), HasSubstr("the list of hosts does not fit the devices"),
                    HasSubstr("3 numbers, one per entry of \"devices\"")));
  EXPECT_THAT(h.error(hosts, "\"hosts\": [0, 1, 0]"),
              AllOf(HasSubstr("hosts are numbered in the order of the ranks"), HasSubstr("expected: 1 or 2")));
  EXPECT_THAT(h.error(hosts, "\"hosts\": [1, 1, 1]"), HasSubstr("expected: 0"));
  EXPECT_THAT(h.error(hosts, "\"hosts\": [0, 0, 0]"),
              AllOf(HasSubstr("realisation"), HasSubstr("each of its groups lies on one host")));
  EXPECT_THAT(h.error(hosts, "\"hosts\": [0, 1, 2]"), HasSubstr("no host holds two devices of a group"));
  EXPECT_THAT(h.error(hosts + ",\n    ", ""),
              AllOf(HasSubstr("the plan does not say which devices share a host"),
                    HasSubstr("\"hosts\" beside \"mesh\""), HasSubstr("choose another realisation")));
}

}  // namespace
}  // namespace hetsynth
