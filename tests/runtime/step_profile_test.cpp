// What is printed of the calls of a profiled step.
#include "runtime/rank/step_profile.h"

#include <gmock/gmock.h>

namespace hetsynth {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(StepProfile, AddsCallsOfANameAndTellsTheShareOfProducts) {
  std::vector<TimedWork> work;
  add_call(work, TimedWork::Kind::kernel, "softmax", 0.001);
  add_call(work, TimedWork::Kind::product, "product of 1 x [8, 4] x [4, 2]", 0.002);
  add_call(work, TimedWork::Kind::product, "product of 1 x [8, 4] x [4, 2]", 0.004);
  add_call(work, TimedWork::Kind::transfer, "ncclAllReduce", 0.005);
  add_call(work, TimedWork::Kind::kernel, "relu", 0.001);
  ASSERT_EQ(work.size(), 4u);
  EXPECT_EQ(work[1].calls, 2);
  const std::string text = profile_text(work, 3);
  // 6 ms of 8 ms; transfers run beside and have no share.
  EXPECT_THAT(text, HasSubstr("computing 8.000 ms, of it matrix products 75.0 %; transfers 5.000 ms beside it"));
  EXPECT_THAT(text, HasSubstr("6.000 ms  75.0%     2 x product of 1 x [8, 4] x [4, 2]\n"));
  EXPECT_THAT(text, HasSubstr("5.000 ms      -     1 x ncclAllReduce\n"));
  EXPECT_THAT(text, HasSubstr("1.000 ms  12.5%     1 x softmax\n"));
  EXPECT_THAT(text, HasSubstr("1.000 ms          1 others"));
  EXPECT_THAT(text, Not(HasSubstr("relu")));
  EXPECT_LT(text.find("product of"), text.find("ncclAllReduce"));
}

}  // namespace
}  // namespace hetsynth
