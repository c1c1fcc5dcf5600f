// The check of generated source passes what is right: every model of examples/ at its tiny size, with a batch that does
// not divide evenly, on unequal devices with less memory than they want, so that much is computed and gathered again.
#include <gtest/gtest.h>

#include "codegen/interface/device_program.h"
#include "dsl/base/error.h"
#include "runtime/training/generated_check.h"
#include "synth/planner/synthesize.h"
#include "tests/support/test_name.h"
#include "tests/support/zoo/walk.h"

namespace hetsynth::testing {
namespace {

/// Any plan does: the search need not come to its end, and in little time leaves more that is computed again.
const SynthesisOptions options{.time_limit_seconds = 0.2, .progress = {}};

/// Room for variables' padding at tiny sizes, where it is more than the part that is taken away.
constexpr int64_t padding_bytes = 2048;

/// Each device gets this part of what it takes with as much memory as it wants. Nothing where no plan fits.
std::optional<Plan> plan_within(const Program& program, const Plan& roomy, double part, Cluster& cluster) {
  for (size_t d = 0; d < cluster.devices.size(); ++d)
    cluster.devices[d].memory_bytes = int64_t(part * double(roomy.prediction.devices[d].memory_bytes)) + padding_bytes;
  try {
    return synthesize(program, cluster, options);
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::infeasible) << error.what();
    return std::nullopt;
  }
}

class CheckedSource : public ::testing::TestWithParam<ListedModel> {};

INSTANTIATE_TEST_SUITE_P(Models, CheckedSource, ::testing::ValuesIn(first_of_each_file()),
                         [](const auto& info) { return test_name(info.param.name); });

TEST_P(CheckedSource, WithinLittleMemoryIsRight) {
  Settings settings = GetParam().tiny;
  settings["batch"] = "7";
  const TracedModel traced = trace_model(GetParam(), settings);
  Cluster three = three_uneven_devices();
  const Plan roomy = synthesize(traced.program, three, options);
  int checked = 0;
  for (const double part : {0.8, 0.7}) {
    const std::optional<Plan> plan = plan_within(traced.program, roomy, part, three);
    if (!plan) continue;
    for (int rank = 0; rank < int(plan->devices.size()); ++rank, ++checked) {
      const DeviceProgram device = generate(traced.program, plan->program, three, rank);
      const SourceCheck found = check_source(traced.program, plan->program, rank_source(device), source_options());
      EXPECT_EQ(found.verdict, Verdict::proved)
          << part << " of its memory, rank " << rank << ", line " << found.line << ": " << found.summary;
    }
  }
  if (!checked) GTEST_SKIP() << "no plan takes less memory";
}

}  // namespace
}  // namespace hetsynth::testing
