// Every operator of the list, its samples cut along every factor that may be: the plan is proved.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "dsl/ir/operator.h"
#include "tests/support/operator_plan.h"
#include "verify/verify.h"

namespace hetsynth::test {
namespace {

class OperatorProof : public ::testing::TestWithParam<std::string> {};

TEST_P(OperatorProof, EverySplitIsProved) {
  int proofs = 0;
  for (const OperatorInfo& info : operator_list()) {
    if (info.name != GetParam()) continue;
    for (const OperatorSample& sample : info.samples) {
      Program program = program_of(sample);
      const Node& node = program.nodes.back();
      for (int f = 0; f < int(node.space.factors.size()); ++f) {
        if (!can_split(program, f)) continue;
        const Factor& factor = node.space.factors[size_t(f)];
        Verification result = verify(program, split(program, f, {0, factor.size / 3, factor.size / 3, factor.size}));
        EXPECT_EQ(name(result.verdict), "proved")
            << factor.name << " of " << text(node.space) << ": " << text(node.body) << "\n"
            << result.summary;
        ++proofs;
      }
    }
  }
  if (proofs == 0) GTEST_SKIP() << "nothing of it can be split";
}

std::vector<std::string> names_with_samples() {
  std::vector<std::string> names;
  for (const OperatorInfo& info : operator_list())
    if (!info.samples.empty()) names.push_back(info.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(List, OperatorProof, ::testing::ValuesIn(names_with_samples()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace hetsynth::test
