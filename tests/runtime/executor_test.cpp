// Executor: initial values, gathering, failures; with a hand-written step instead of generated code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsl/base/error.h"
#include "runtime/rank/arena.h"
#include "runtime/rank/throttle.h"
#include "tests/runtime/fake_program.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace testing;  // NOLINT: fixtures of this folder

TEST(Executor, InitialValuesEqualTheInterpretersUnderEveryPlan) {
  const Bindings expected = initial_values(fake_reference(), 5);
  for (const bool cut : {true, false}) {
    FakeOptions options = three_uneven_ranks();
    options.cut_parameters = cut;
    const auto executor = fake_executor(options);
    for (const NodeId node : {1, 2}) {
      // Exactly equal: both draw the same float32 numbers.
      EXPECT_EQ(to_array(executor->read(node)).values, expected.at(node).values);
    }
  }
}

TEST(Executor, StepsUpdateEveryPartAndReportLossAndTimes) {
  const auto executor = fake_executor(three_uneven_ranks());
  const auto data = open_data(fake_reference(), {"", 5});
  std::vector<double> w = initial_values(fake_reference(), 5).at(1).values;
  for (int64_t step = 0; step < 3; ++step) {
    const StepReport report = executor->step(step, *data);
    double expected = 0;
    const Bindings batch = whole_batch(fake_reference(), *data, step);
    for (const double x : batch.at(0).values) expected += std::fabs(x) / 36;
    EXPECT_NEAR(report.loss, expected, 1e-6);  // a sum of 36 float32 numbers below 1
    for (double& value : w) value -= 0.1 * report.loss;
    ASSERT_EQ(report.ranks.size(), 3u);
    for (const RankTimes& times : report.ranks) {
      EXPECT_LE(times.compute_seconds + times.transfer_seconds + times.idle_seconds, report.seconds * 1.0001);
    }
  }
  const Array got = to_array(executor->read(1));
  for (size_t i = 0; i < w.size(); ++i) EXPECT_NEAR(got.values[i], w[i], 1e-6);  // three float32 roundings near 1
  EXPECT_EQ(to_array(executor->read(2)).values, std::vector<double>(14, 3.0));
}

TEST(Executor, WritesAreSeenWholeAndTypesAreChecked) {
  const auto executor = fake_executor(three_uneven_ranks());
  HostTensor value(TensorType{{7, 2}, DType::f32});
  for (size_t i = 0; i < 14; ++i) value.as<float>()[i] = static_cast<float>(i);
  executor->write(1, value);
  EXPECT_EQ(executor->read(1).bytes, value.bytes);
  try {
    executor->write(1, HostTensor(TensorType{{7, 3}, DType::f32}));
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("f32[7,2]"), HasSubstr("f32[7,3]")));
  }
}

TEST(Executor, FailureOfARankNamesItsDevice) {
  FakeOptions options = three_uneven_ranks();
  options.failing_rank = 2;
  const auto executor = fake_executor(options);
  const auto data = open_data(fake_reference(), {"", 5});
  executor->step(1, *data);
  try {
    executor->step(2, *data);
    FAIL() << "the step must fail";
  } catch (const RunFailed& error) {
    EXPECT_STREQ(error.what(), "rank 2 (dev2) failed: disk on fire");
    EXPECT_EQ(error.failure().rank, 2);
  }
  EXPECT_EQ(to_array(executor->read(2)).values[0], 1.0);  // still readable
}

TEST(Memory, TooMuchIsRefusedByDevice) {
  check_memory({"a", "b"}, {40, 60}, 100);
  try {
    check_memory({"a", "b"}, {int64_t{1} << 30, int64_t{3} << 29}, int64_t{2} << 30);
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::failure);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("a: 1.0 GiB, b: 1.5 GiB"), HasSubstr("at most 2.0 GiB"), HasSubstr("2.5 GiB")));
  }
  EXPECT_EQ(text_of_bytes(640), "640 B");
  EXPECT_GT(usable_memory_bytes(), 0);
}

TEST(Memory, ArenasAreAlignedAndZero) {
  const Arena arena(1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.data()) % 64, 0u);
  for (int64_t i = 0; i < 1000; ++i) ASSERT_EQ(arena.data()[i], 0);
}

TEST(Throttle, SleepsForTheShareItDoesNotHave) {
  Throttle half(0.5), full(1.0), busy(0.5);
  EXPECT_EQ(full.pay(1.0, 1.0), 0);
  EXPECT_GE(half.pay(0.020, 0.020), 0.020 * 0.99);  // never wakes early; clocks differ by less than 1 %
  EXPECT_EQ(busy.pay(0.020, 0.045), 0);             // was kept off its core for longer than it owes
}

}  // namespace
}  // namespace hetsynth
