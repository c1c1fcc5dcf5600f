// The probe measures something: figures are positive, plausible by orders of magnitude, and one rank has no link. How
// fast a machine is cannot be asserted.
#include "runtime/probe.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hetsynth {
namespace {

const ProbeOptions brief{96, 3 << 20, 1 << 18, 0.01};

TEST(Probe, MeasuresTwoRanks) {
  const ProbeResult result = probe_cores(2, brief);
  EXPECT_GT(result.matmul_flops_per_second, 1e6);
  EXPECT_LT(result.matmul_flops_per_second, 1e14);
  EXPECT_GT(result.memory_bytes_per_second, 1e6);
  EXPECT_LT(result.memory_bytes_per_second, 1e13);
  EXPECT_GT(result.link.latency_seconds, 0);
  EXPECT_LT(result.link.latency_seconds, 1);
  EXPECT_GT(result.link.bandwidth_bytes_per_second, 0);
  EXPECT_TRUE(std::isfinite(result.link.bandwidth_bytes_per_second));
}

TEST(Probe, OneRankHasNoLink) { EXPECT_TRUE(std::isinf(probe_cores(1, brief).link.bandwidth_bytes_per_second)); }

}  // namespace
}  // namespace hetsynth
