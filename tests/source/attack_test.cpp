// The check of source held against the verifier: what is proved of plans that no planner makes passes the check, rank
// by rank, when source is generated for it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <iostream>
#include <random>

#include "runtime/generated_check.h"
#include "tests/attack/campaign.h"
#include "tests/codegen/harness.h"
#include "tests/source/fixture.h"
#include "verify/verify.h"

namespace hetsynth::test {
namespace {

/// All ranks of so many proved plans with a loss on at most six devices, each text in a process of its own. The plan of
/// a seed: `bench_attack --one=SEED`.
void expect_source_agrees(uint64_t seed, int plans) {
  std::cout << "seed " << seed << "\n";
  attack::ProofCache cache;
  for (int taken = 0; taken < plans; ++seed) {
    const std::optional<attack::Case> c = attack::case_of(seed, cache);
    if (!c || c->plan.loss < 0 || c->plan.mesh.device_count() > 6) continue;
    if (verify(c->model.program, c->plan).verdict != Verdict::proved) continue;
    ++taken;
    SCOPED_TRACE(fmt::format("plan of seed {}, model {}", seed, c->model.kind));
    try {
      const Generated g = generated(c->model.program, c->plan, cpu_cluster(c->plan.mesh.device_count()));
      const GeneratedCheck found = check_foreign(g.reference, g.plan, g.devices);
      EXPECT_EQ(name(found.verdict), "proved")
          << "rank " << found.worst().rank << ", line " << found.worst().line << ": " << found.worst().summary;
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

TEST(AttackedSource, WhatIsProvedPasses) { expect_source_agrees(1, 30); }

TEST(AttackedSource, WhatIsProvedPassesWithAnotherSeed) { expect_source_agrees(std::random_device()(), 10); }

}  // namespace
}  // namespace hetsynth::test
