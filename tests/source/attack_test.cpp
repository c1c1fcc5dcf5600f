// The check of source held against the verifier: what is proved of plans that no planner makes passes the check, rank
// by rank, when source is generated for it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <random>
#include <set>

#include "runtime/training/generated_check.h"
#include "tests/attack/campaign.h"
#include "tests/codegen/harness.h"
#include "tests/source/fixture.h"
#include "verify/verify.h"

namespace hetsynth::test {
namespace {

/// What right source is refused for (docs/limits.md, "Checking source"): a tensor that the plan computes twice, of
/// which one lies in memory while the other is only passed through, and new contents that a loop fills in their place.
bool beyond_the_check(const attack::Case& c) {
  std::set<NodeId> computed;
  for (const Instruction& i : c.plan.instructions)
    if (i.opcode == Opcode::compute && !computed.insert(i.node).second) return true;
  const std::vector<Update>& updates = c.model.program.updates;
  return std::any_of(updates.begin(), updates.end(),
                     [&](const Update& u) { return stacked_dim(c.model.program[u.value].space) >= 0; });
}

struct Verdicts {
  int unknown = 0, wrong = 0;
  std::string why;
};

/// Of all ranks of so many proved plans with a loss on at most six devices, each text in a process of its own, from
/// this seed on. The plan of a seed: `bench_attack --one=SEED`.
Verdicts check_sources(uint64_t seed, int plans) {
  std::cout << "seed " << seed << "\n";
  attack::ProofCache cache;
  Verdicts out;
  auto& [unknown, wrong, why] = out;
  for (int taken = 0; taken < plans; ++seed) {
    const std::optional<attack::Case> c = attack::case_of(seed, cache);
    if (!c || c->plan.loss < 0 || c->plan.mesh.device_count() > 6) continue;
    if (beyond_the_check(*c) || verify(c->model.program, c->plan).verdict != Verdict::proved) continue;
    ++taken;
    SCOPED_TRACE(fmt::format("plan of seed {}, model {}", seed, c->model.kind));
    try {
      const Generated g = generated(c->model.program, c->plan, cpu_cluster(c->plan.mesh.device_count()));
      const GeneratedCheck found = check_foreign(g.reference, g.plan, g.devices);
      const std::string worst =
          fmt::format("rank {}, line {}: {}", found.worst().rank, found.worst().line, found.worst().summary);
      if (found.verdict == Verdict::proved) continue;
      ++(found.verdict == Verdict::unknown ? unknown : wrong);
      why += fmt::format("plan of seed {}, {}\n", seed, worst);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
  std::cout << unknown << " unknown and " << wrong << " refuted of " << plans << "\n" << why;
  return out;
}

/// Of one plan in ten the check may not know; it may refute `refuted` of them, all of kinds that docs/limits.md tells.
void expect_source_agrees(uint64_t seed, int plans, int refuted) {
  const Verdicts found = check_sources(seed, plans);
  EXPECT_LE(10 * found.unknown, plans) << found.why;
  EXPECT_LE(found.wrong, refuted) << found.why;
}

/// As many as HETSYNTH_ATTACKED_SOURCES says, for a campaign.
int plans_to_take(int plans) {
  const char* wanted = std::getenv("HETSYNTH_ATTACKED_SOURCES");
  return wanted ? std::max(plans, std::atoi(wanted)) : plans;
}

TEST(AttackedSource, WhatIsProvedPasses) { expect_source_agrees(1, plans_to_take(30), 0); }

/// One in 130 or so is met that is refuted (docs/limits.md). A fresh seed may meet one of 20, and in one run of a
/// hundred meets two: then ten times as many tell whether they have become more.
TEST(AttackedSource, WhatIsProvedPassesWithAnotherSeed) {
  const uint64_t seed = std::random_device()();
  const Verdicts few = check_sources(seed, 20);
  if (few.wrong > 1 || 10 * few.unknown > 20) expect_source_agrees(seed + 1'000'000, 200, 5);
}

}  // namespace
}  // namespace hetsynth::test
