// Predicted steps of all models of examples/ at their published sizes, on one axis over all devices of the clusters of
// examples/ and bench/, against a kept table: no change of the planner changes plans unseen. The tables are written
// anew by the gate, which says what a change costs: bench_plan_gate --beside=OTHER --keep (docs/benchmarks.md).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "dsl/base/error.h"
#include "synth/planner/synthesize.h"
#include "tests/support/golden.h"
#include "tests/support/test_name.h"
#include "tests/support/zoo/clusters.h"
#include "tests/support/zoo/walk.h"

namespace hetsynth::testing {
namespace {

std::string step_of(const ListedModel& model, const Cluster& cluster) {
  try {
    const Plan plan = synthesize(trace_model(model, model.published).program, cluster);
    return fmt::format("{:.2f} ms", plan.prediction.objective_seconds * 1e3);
  } catch (const UserError& error) {
    if (error.code() != ExitCode::infeasible) throw;
    return "does not fit";
  }
}

class Steps : public ::testing::TestWithParam<const char*> {};

TEST_P(Steps, AreThoseOfTheTable) {
  const std::string name = GetParam();
  const Cluster cluster = load_cluster(cluster_file(name));
  std::string table;
  for (const ListedModel& model : listed_models())
    table += fmt::format("{:<18} {}\n", model.name, step_of(model, cluster));
  expect_golden("steps_" + name + ".txt", table);
}

INSTANTIATE_TEST_SUITE_P(Clusters, Steps,
                         ::testing::Values("a100-64", "a100-v100", "mixed-five", "three-unequal", "two-equal",
                                           "unequal", "v100-p100", "four-equal", "eight-unequal", "twenty-nine",
                                           "five-of-three-kinds"),
                         [](const auto& info) { return test_name(info.param); });

}  // namespace
}  // namespace hetsynth::testing
