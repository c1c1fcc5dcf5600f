// Plan files with one piece of their text changed.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "dsl/spmd/plan.h"
#include "tests/support/error_of.h"
#include "tests/support/plan_fixture.h"

namespace hetsynth::testing {

/// A plan of the fixture's program, its text, and how the text is refused where it is changed.
class ChangedPlan : public ::testing::Test {
 protected:
  explicit ChangedPlan(Plan (*make)(const Program&)) : plan(make(reference)) {}

  /// "no error" if the plan is read all the same.
  std::string error_of(const std::string& from, const std::string& to) const {
    std::string text = json;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from << "\n" << json;
    if (at == std::string::npos) return "";
    text.replace(at, from.size(), to);
    return hetsynth::error_of([&] { plan_from_json(text, "p.json", reference); });
  }

  const Program reference = plan_test_program();
  const Plan plan;
  const std::string json = plan_to_json(plan, reference);
};

}  // namespace hetsynth::testing
