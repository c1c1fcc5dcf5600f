// A copy of the process that works for a part of the time, and what it hands over.
#include "runtime/balance/gentle_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <stdexcept>
#include <thread>

#include "runtime/rank/throttle.h"

namespace hetsynth {
namespace {

/// Computes for so many seconds of CPU time; the seconds that passed meanwhile.
std::string busy(double cpu_seconds) {
  const double start = wall_seconds();
  while (thread_cpu_seconds() < cpu_seconds) {
  }
  return std::to_string(wall_seconds() - start);
}

TEST(GentleProcess, GivesWhatTheWorkGives) {
  std::string words(100'000, 'x');  // more than a pipe holds
  GentleProcess process(0.5, [&] { return words + "done"; });
  words.clear();  // the copy has its own
  std::optional<std::string> result;
  while (!result) {
    result = process.result();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(*result, std::string(100'000, 'x') + "done");
  EXPECT_EQ(*process.result(), *result);
}

TEST(GentleProcess, TakesItsPartOfACoreUntilItIsHurried) {
  GentleProcess process(0.1, [] { return busy(0.05); });
  EXPECT_GE(std::stod([&] {
              while (!process.result()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
              return *process.result();
            }()),
            0.4);                                        // ten times 50 ms, but for what follows the last rest
  GentleProcess slow(0.001, [] { return busy(0.05); });  // 50 s
  EXPECT_FALSE(slow.result());
  EXPECT_LE(std::stod(slow.hurried()), 20);
}

TEST(GentleProcess, TellsWhatWentWrong) {
  const auto told = [](const std::function<std::string()>& work) {
    GentleProcess process(0.5, work);
    try {
      return process.hurried();
    } catch (const std::runtime_error& error) {
      return std::string("threw: ") + error.what();
    }
  };
  EXPECT_EQ(told([]() -> std::string { throw std::invalid_argument("no paper"); }), "threw: no paper");
  EXPECT_EQ(told([]() -> std::string {
              ::raise(SIGKILL), ::pause();
              return "";
            }),
            "threw: the process ended by signal 9");
  EXPECT_EQ(told([]() -> std::string { ::_exit(0); }), "threw: the process ended without a result");
  EXPECT_EQ(told([] { return std::string(); }), "");
}

TEST(GentleProcess, EndsWithItsParent) {
  const double start = wall_seconds();
  {
    GentleProcess process(0.01, [] { return busy(100); });
  }
  EXPECT_LT(wall_seconds() - start, 5);
}

}  // namespace
}  // namespace hetsynth
