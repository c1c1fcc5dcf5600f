// Links of a job's hosts, measured pair by pair between processes that are threads.
#include "runtime/processes/link_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "tests/runtime/process_runs.h"

namespace hetsynth::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using testing_support::DoubleProcesses;

constexpr LinkProbeOptions brief{.seconds = 0.01};

TEST(LinkProbe, MeasuresEveryPairAndTellsAll) {
  DoubleProcesses network({"a", "b", "c"});
  std::vector<LinkProbeResult> results;
  std::mutex mutex;
  const auto thrown = in_processes(network, 3, {}, [&](Job& job) {
    const LinkProbeResult result = probe_links(job, brief);
    const std::lock_guard lock(mutex);
    results.push_back(result);
  });
  EXPECT_THAT(thrown, Each(""));
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(network.undelivered(), 0);
  for (const LinkProbeResult& result : results) {
    ASSERT_EQ(result.pairs.size(), 3u);
    ASSERT_EQ(result.message_bytes_per_second.size(), 3u);
    for (size_t pair = 0; pair < 3; ++pair) {
      const Link& link = result.pairs[pair].link;
      EXPECT_GT(link.bandwidth_bytes_per_second, 1e6);
      EXPECT_GT(link.latency_seconds, 0);
      EXPECT_LE(result.slowest.bandwidth_bytes_per_second, link.bandwidth_bytes_per_second);
      EXPECT_GE(result.slowest.latency_seconds, link.latency_seconds);
      EXPECT_EQ(link.bandwidth_bytes_per_second, results[0].pairs[pair].link.bandwidth_bytes_per_second);
    }
    for (const double rate : result.message_bytes_per_second) EXPECT_GT(rate, 1e6);
    EXPECT_EQ(result.message_bytes_per_second, results[0].message_bytes_per_second);
  }
}

TEST(LinkProbe, EndsWhereAProcessFallsSilent) {
  DoubleProcesses network({"a", "b", "c"});
  const auto thrown = in_processes(network, 3, {.patience = std::chrono::milliseconds(400)}, [&](Job& job) {
    if (job.process() == 2) network.silence(2);
    probe_links(job, brief);
  });
  for (int process : {0, 1}) EXPECT_THAT(thrown[size_t(process)], HasSubstr("process 2 on c"));
}

TEST(LinkProbe, OneProcessHasNoPairs) {
  DoubleProcesses network({"a"});
  const auto thrown =
      in_processes(network, 1, {}, [&](Job& job) { EXPECT_TRUE(probe_links(job, brief).pairs.empty()); });
  EXPECT_THAT(thrown, Each(""));
}

}  // namespace
}  // namespace hetsynth::testing
