// Plans that compute an operation in two ways: asked for, told of, proved, run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/command.h"

namespace hetsynth::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

/// What relu gives is summed by rows and by columns.
const char* const sums = R"(#include "hetsynth/hetsynth.h"
using namespace hetsynth;
void model() {
  Tensor h = relu(synthetic_batch(512, 512, 2).samples);
  Tensor w = parameter("w", {512}, ones());
  minimize(mean(sum(h, {1}) * w) + mean(sum(h, {0}) * w), SGD{.learning_rate = 0.01});
}
)";

/// To hand partial sums on takes longer than to compute relu once more, and that less than to compute it whole.
const char* const slow_links = R"(name = "slow links"
[between]
bandwidth = "1 GB/s"
latency = "2 ms"
[[host]]
name = "h"
count = 4
inside = { bandwidth = "10 GB/s", latency = "1 us" }
[[host.device]]
name = "core"
kind = "cpu"
memory = "1 GiB"
declared = { matmul = "1 GFLOP/s", memory_bandwidth = "100 MB/s" }
)";

TEST(InTwoWays, AreAskedForToldOfProvedAndRun) {
  const Workplace place;
  place.write("sums.cpp", sums);
  place.write("slow.toml", slow_links);
  const std::string plan = "plan sums.cpp --cluster slow.toml --mesh-axes 1 --ratio 1,1,1,1 -o plan.json ";
  const Json one = Json::parse(place.run(plan + "--json").out);
  EXPECT_FALSE(one.contains("computed_in_two_ways"));
  EXPECT_THAT(place.run(plan).out, Not(HasSubstr("two ways")));
  const Json two = Json::parse(place.run(plan + "--two-ways --json").out);
  EXPECT_EQ(two["computed_in_two_ways"], 1);
  EXPECT_LT(double(two["step_seconds"]), double(one["step_seconds"]));
  EXPECT_THAT(place.run(plan + "--two-ways").out,
              AllOf(HasSubstr("     1 computed in two ways, which costs less than converting the result"),
                    HasSubstr("; operations computed in two ways were searched on one axis")));
  EXPECT_THAT(place.run("explain sums.cpp plan.json --cluster slow.toml").out,
              HasSubstr("     1 computed in two ways"));
  const Outcome run = place.run("run sums.cpp --plan plan.json --cluster slow.toml --steps 2");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out + run.err,
              AllOf(HasSubstr("proved: "), HasSubstr("the generated programs of 4 ranks do what the plan says")));
}

}  // namespace
}  // namespace hetsynth::testing
