// Random programs and plans: right ones are proved, changed ones are never proved where evaluation differs, nonsense
// never crashes.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "tests/mutation/random_plans.h"
#include "verify/refute/refute.h"
#include "verify/rules/normalised_plan.h"
#include "verify/verify.h"

namespace hetsynth {
namespace {

using namespace test;

struct Case {
  Program reference;
  SpmdProgram plan;
};

/// `operations` shrinks; the rest follows from the seed.
Case random_case(Random& random, int operations) {
  Case c;
  c.reference = random_program(random, operations);
  c.plan = random_plan(random, c.reference);
  return c;
}

RC_GTEST_PROP(RandomPlans, RightOnesAreProved, (uint64_t seed)) {
  int operations = *rc::gen::inRange(1, 12);
  Random random(seed);
  Case c = random_case(random, operations);
  Verification v = verify(c.reference, c.plan);
  RC_LOG() << v.summary << "\n" << v.counterexample.text << "\n" << text(c.plan, c.reference);
  RC_ASSERT(v.verdict == Verdict::proved);
}

/// The judge is evaluation at the plan's own sizes and at others, which knows nothing of rules and proofs.
RC_GTEST_PROP(RandomPlans, NothingWrongIsProved, (uint64_t seed)) {
  int operations = *rc::gen::inRange(1, 10), changes = *rc::gen::inRange(1, 3);
  Random random(seed);
  Case c = random_case(random, operations);
  for (int i = 0; i < changes; ++i) mutate(random, c.plan, c.reference);
  Verification v = verify(c.reference, c.plan);
  RC_CLASSIFY(v.verdict == Verdict::proved, "still proved");
  RC_CLASSIFY(v.verdict == Verdict::refuted, "refuted");
  RC_CLASSIFY(v.verdict == Verdict::unknown, "unknown");
  RC_ASSERT(!v.summary.empty());
  if (v.verdict != Verdict::proved) return;
  auto limit = smt::Clock::now() + std::chrono::seconds(20);
  Refutation judged = find_counterexample(c.reference, c.plan, limit);
  if (judged.counterexample) RC_LOG() << judged.counterexample->text << "\n" << text(c.plan, c.reference);
  RC_ASSERT(!judged.counterexample);
}

RC_GTEST_PROP(RandomPlans, NonsenseIsToldNotCrashedOn, (uint64_t seed)) {
  int changes = *rc::gen::inRange(1, 6);
  Random random(seed);
  Case c = random_case(random, 4);
  for (int i = 0; i < changes; ++i) corrupt(random, c.plan);
  Verification v = verify(c.reference, c.plan);
  RC_ASSERT(!v.summary.empty());
  RC_ASSERT(v.seconds < 20);
}

}  // namespace
}  // namespace hetsynth
