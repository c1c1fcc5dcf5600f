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
  for (const SpeedField& field : speed_fields()) {
    const std::optional<double>& value = result.speed.*field.value;
    if (field.dimension == Dimension::time) continue;
    if (field.value == &DeviceSpeed::message_bytes_per_second) {
      EXPECT_FALSE(value) << "it takes other hosts to measure them";
      continue;
    }
    if (field.key.starts_with("matmul_")) {
      EXPECT_FALSE(value) << field.key << " is of GPUs";
      continue;
    }
    ASSERT_TRUE(value) << field.key;
    EXPECT_GT(*value, 1e6) << field.key;
    EXPECT_LT(*value, 1e14) << field.key;
  }
  EXPECT_GE(*result.speed.matmul_call_seconds, 0);
  EXPECT_LT(*result.speed.matmul_call_seconds, 1);
  EXPECT_GT(result.link.latency_seconds, 0);
  EXPECT_LT(result.link.latency_seconds, 1);
  EXPECT_GT(result.link.bandwidth_bytes_per_second, 0);
  EXPECT_TRUE(std::isfinite(result.link.bandwidth_bytes_per_second));
}

TEST(Probe, OneRankHasNoLink) { EXPECT_TRUE(std::isinf(probe_cores(1, brief).link.bandwidth_bytes_per_second)); }

}  // namespace
}  // namespace hetsynth
