// Samples made ahead are the same samples, made once, beside the steps; errors come when they are due.
#include "runtime/data/data_ahead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/runtime/fake_program.h"

namespace hetsynth {
namespace {

using namespace testing;  // NOLINT: fixtures of this folder

/// Takes its time; a part holds step and first element.
class SlowData : public BatchSource {
 public:
  explicit SlowData(std::chrono::microseconds pause, int64_t broken_step = -1) : pause_(pause), broken_(broken_step) {}
  void fill(const Node& input, std::span<const Range> ranges, int64_t step, std::span<std::byte> out) const override {
    ++calls;
    std::this_thread::sleep_for(pause_);
    if (step == broken_) throw std::runtime_error("broken sample");
    auto* const values = reinterpret_cast<float*>(out.data());
    for (size_t i = 0; i < out.size() / 4; ++i) values[i] = value(input, ranges, step, i);
  }
  static float value(const Node& input, std::span<const Range> ranges, int64_t step, size_t i) {
    return float(10000 * step + 1000 * input.id + 100 * ranges[0].lo + int64_t(i));
  }
  std::string description() const override { return "slow"; }
  mutable std::atomic<int> calls{0};

 private:
  const std::chrono::microseconds pause_;
  const int64_t broken_;
};

/// Two ranks, each with a thread and two inputs.
void ask(const BatchSource& data, int64_t first, int64_t last, std::chrono::microseconds work) {
  const Node nodes[2] = {fake_leaf(0, NodeKind::input, "a", {8, 2}, {}),
                         fake_leaf(1, NodeKind::input, "b", {8, 2}, {})};
  for (int64_t step = first; step <= last; ++step) {
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 2; ++rank)
      ranks.emplace_back([&, rank] {
        const std::vector<Range> ranges = {{4 * rank, 4 * rank + 4}, {0, 2}};
        for (const Node& node : nodes) {
          std::vector<float> out(8);
          data.fill(node, ranges, step, std::as_writable_bytes(std::span(out)));
          for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], SlowData::value(node, ranges, step, i));
        }
        std::this_thread::sleep_for(work);
      });
    for (std::thread& rank : ranks) rank.join();
  }
}

TEST(DataAhead, GivesTheSameSamplesAndMakesEachOnce) {
  for (const int pause : {0, 500, 2000}) {
    const SlowData source{std::chrono::microseconds(pause)};
    {
      const DataAhead ahead(source, 9);
      ask(ahead, 0, 9, std::chrono::microseconds(500));
    }
    EXPECT_EQ(source.calls, 10 * 4);
  }
}

TEST(DataAhead, StepsInAnyOrderAreRight) {
  const SlowData source{std::chrono::microseconds(1000)};
  const DataAhead ahead(source, 100);
  for (const int64_t step : {5, 6, 3, 3, 100, 0}) ask(ahead, step, step, std::chrono::microseconds(0));
}

/// Ranks may hold the same part: it is made once for both of them, as soon as it is known that both ask.
TEST(DataAhead, APartThatTwoRanksHoldIsMadeOnce) {
  const Node node = fake_leaf(0, NodeKind::input, "a", {8, 2}, {});
  const std::vector<Range> ranges = {{0, 8}, {0, 2}};
  const SlowData source{std::chrono::microseconds(200)};
  {
    const DataAhead ahead(source, 30);
    for (int64_t step = 0; step <= 30; ++step)
      for (int rank = 0; rank < 2; ++rank) {
        std::vector<float> out(16);
        ahead.fill(node, ranges, step, std::as_writable_bytes(std::span(out)));
        EXPECT_EQ(out[5], SlowData::value(node, ranges, step, 5)) << step;
      }
  }
  EXPECT_EQ(source.calls, 32) << "twice in the first step alone";
}

TEST(DataAhead, SmallPartsAreMadeSeveralStepsAhead) {
  const Node node = fake_leaf(0, NodeKind::input, "a", {8, 2}, {});
  const std::vector<Range> ranges = {{0, 8}, {0, 2}};
  std::vector<float> out(16);
  const SlowData source{std::chrono::microseconds(50)};
  const DataAhead ahead(source, 100);
  ahead.fill(node, ranges, 0, std::as_writable_bytes(std::span(out)));
  for (int tries = 0; source.calls < 10 && tries < 1000; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_GE(source.calls, 10) << "though nobody has asked for the second step";
  EXPECT_LE(source.calls, 17);
}

TEST(DataAhead, MakingGoesOnBesideComputing) {
  // Two parts of 20 ms a rank and step, beside 40 ms of work: one after the other 80 ms.
  const SlowData source{std::chrono::milliseconds(20)};
  const auto start = std::chrono::steady_clock::now();
  {
    const DataAhead ahead(source, 9);
    ask(ahead, 0, 9, std::chrono::milliseconds(40));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(10 * 80 * 7 / 8));
}

TEST(DataAhead, AnErrorComesInItsOwnStep) {
  const SlowData source{std::chrono::microseconds(1000), 3};
  const DataAhead ahead(source, 9);
  const Node node = fake_leaf(0, NodeKind::input, "a", {8, 2}, {});
  const std::vector<Range> ranges = {{0, 8}, {0, 2}};
  std::vector<float> out(16);
  for (int64_t step = 0; step < 3; ++step) ahead.fill(node, ranges, step, std::as_writable_bytes(std::span(out)));
  EXPECT_THROW(ahead.fill(node, ranges, 3, std::as_writable_bytes(std::span(out))), std::runtime_error);
}

}  // namespace
}  // namespace hetsynth
