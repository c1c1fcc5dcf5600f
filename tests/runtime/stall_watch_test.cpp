// A rank that computes for ever is told of, with those who wait for it.
#include "runtime/rank/stall_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Looks every second from `from` to `to`; the last thing said.
std::optional<std::string> watch(StallWatch& watch, int from, int to) {
  std::optional<std::string> said;
  for (int second = from; second <= to; ++second)
    if (auto text = watch.look(second)) said = text;
  return said;
}

/// Rank 1 waits at a barrier of two ranks, in "all_reduce of w", until rank 0 comes.
class OneWaits : public ::testing::Test {
 protected:
  void SetUp() override {
    state.begin();
    waiting = std::thread([this] { barrier.arrive_and_wait(1, [] { return "all_reduce of w"; }); });
    while (state.progress(1).waits_in.empty()) std::this_thread::yield();
  }
  void TearDown() override {
    barrier.arrive_and_wait(0, [] { return "its end"; });
    waiting.join();
  }
  RunState state{{"fast0", "slow0"}};
  Barrier barrier{state, 2};
  std::thread waiting;
};

TEST_F(OneWaits, TheOtherIsToldOfOnceItIsLate) {
  StallWatch watched(state, 10);
  EXPECT_EQ(watch(watched, 0, 9), std::nullopt);
  const std::optional<std::string> said = watch(watched, 10, 11);
  ASSERT_TRUE(said);
  EXPECT_THAT(*said,
              AllOf(HasSubstr("rank 0 (fast0) has computed for 10 s without meeting the others"),
                    HasSubstr("rank 1 (slow0) waits in all_reduce of w"), Not(HasSubstr("slow0) has computed"))));
}

TEST_F(OneWaits, IsToldOfAgainAfterTwiceAsLong) {
  StallWatch watched(state, 10);
  ASSERT_TRUE(watch(watched, 0, 10));
  EXPECT_EQ(watch(watched, 11, 19), std::nullopt);
  EXPECT_TRUE(watch(watched, 20, 20));
  EXPECT_EQ(watch(watched, 21, 39), std::nullopt);
  EXPECT_TRUE(watch(watched, 40, 40));
}

TEST_F(OneWaits, TimeInWhichNobodyRanDoesNotCount) {
  StallWatch watched(state, 10);
  EXPECT_EQ(watch(watched, 0, 3), std::nullopt);
  EXPECT_EQ(watched.look(3600), std::nullopt);  // counts as a few seconds
}

TEST(StallWatch, ProgressStartsTheCountAnew) {
  RunState state({"fast0", "slow0"});
  Barrier alone(state, 1);
  state.begin();
  StallWatch watched(state, 10);
  for (int round = 0; round < 5; ++round) {
    EXPECT_EQ(watch(watched, 9 * round, 9 * round + 8), std::nullopt) << round;
    for (int rank : {0, 1}) alone.arrive_and_wait(rank, [] { return ""; });
  }
}

TEST(StallWatch, WaitingForAnotherProcessIsNoComputing) {
  RunState state({"fast0", "slow0"});
  state.begin();
  state.set_finished(1);
  state.begin_exchange(0, "all_gather of x");
  StallWatch watched(state, 10);
  EXPECT_EQ(watch(watched, 0, 100), std::nullopt);
  EXPECT_EQ(state.failure(), std::nullopt) << "an exchange is no deadlock";
  state.end_exchange(0);
  EXPECT_TRUE(watch(watched, 101, 130));
}

}  // namespace
}  // namespace hetsynth
