// Cores that a control group leaves.
#include "runtime/rank/core_quota.h"

#include <gtest/gtest.h>

#include "tests/runtime/temporary_folder.h"

namespace hetsynth {
namespace {

TEST(CoreQuota, IsReadFromTheGroupAndThoseAroundIt) {
  EXPECT_EQ(cores_of_quota("200000 100000\n"), 2);
  EXPECT_EQ(cores_of_quota("150000 100000\n"), 2);
  EXPECT_EQ(cores_of_quota("1000 100000\n"), 1);
  EXPECT_EQ(cores_of_quota("1e30 1\n"), 1 << 20);
  for (const char* none : {"max 100000\n", "", "100000\n", "0 100000", "-1 100000", "5 0", "words"})
    EXPECT_EQ(cores_of_quota(none), std::nullopt) << none;

  testing::TemporaryFolder folder;
  folder.write("own", "1:cpu:/old\n0::/jobs/17\n");
  const auto quota = [&] { return quota_of_this_process(folder.path("groups"), folder.path("own")); };
  EXPECT_EQ(quota(), std::nullopt);
  folder.write("groups/jobs/17/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), std::nullopt);
  folder.write("groups/jobs/cpu.max", "400000 100000\n");
  EXPECT_EQ(quota(), 4);
  folder.write("groups/jobs/17/cpu.max", "300000 100000\n");
  EXPECT_EQ(quota(), 3);
  folder.write("groups/cpu.max", "100000 100000\n");
  EXPECT_EQ(quota(), 1);
}

/// Quota and period are files of their own, in the folder of the controller.
TEST(CoreQuota, IsReadFromGroupsOfTheFirstVersion) {
  testing::TemporaryFolder folder;
  folder.write("own", "4:cpu,cpuacct:/jobs/17\n3:cpuset:/\n0::/\n");
  const auto quota = [&] { return quota_of_this_process(folder.path("groups"), folder.path("own")); };
  folder.write("groups/cpuset/cpu.cfs_quota_us", "100000\n");  // of another controller
  EXPECT_EQ(quota(), std::nullopt);
  folder.write("groups/cpu,cpuacct/jobs/17/cpu.cfs_quota_us", "-1\n");
  folder.write("groups/cpu,cpuacct/jobs/17/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), std::nullopt);
  folder.write("groups/cpu,cpuacct/jobs/17/cpu.cfs_quota_us", "300000\n");
  EXPECT_EQ(quota(), 3);
  folder.write("groups/cpu,cpuacct/cpu.cfs_quota_us", "15000\n");
  folder.write("groups/cpu,cpuacct/cpu.cfs_period_us", "10000\n");
  EXPECT_EQ(quota(), 2);
  folder.write("own", "1:cpu:/17\n");  // mounted alone
  folder.write("groups/cpu/17/cpu.cfs_quota_us", "5000\n");
  folder.write("groups/cpu/17/cpu.cfs_period_us", "10000\n");
  EXPECT_EQ(quota(), 1);
}

}  // namespace
}  // namespace hetsynth
