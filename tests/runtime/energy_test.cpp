// What processors take, from files as Linux has them.
#include "runtime/rank/energy.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/runtime/temporary_folder.h"

namespace hetsynth {
namespace {

using namespace testing;  // NOLINT: fixtures of this folder

void write_zone(const TemporaryFolder& folder, const std::string& zone, const std::string& name, int64_t microjoules) {
  std::filesystem::create_directories(folder.path(zone));
  folder.write(zone + "/name", name + "\n");
  folder.write(zone + "/energy_uj", std::to_string(microjoules) + "\n");
  folder.write(zone + "/max_energy_range_uj", "1000000\n");
}

TEST(Energy, IsThatOfAllProcessorsSinceTheCallBefore) {
  const TemporaryFolder folder;
  write_zone(folder, "intel-rapl:0", "package-0", 100'000);
  write_zone(folder, "intel-rapl:1", "package-1", 900'000);
  write_zone(folder, "intel-rapl:0:0", "core", 5);  // a part of the first
  write_zone(folder, "intel-rapl:2", "psys", 7);    // the platform, with both
  EnergyMeter meter(folder.path(""));
  EXPECT_EQ(meter.joules(), 0);
  write_zone(folder, "intel-rapl:0", "package-0", 300'000);
  write_zone(folder, "intel-rapl:1", "package-1", 50'000);  // it has begun anew
  write_zone(folder, "intel-rapl:2", "psys", 700'000);
  ASSERT_TRUE(meter.joules());
  write_zone(folder, "intel-rapl:0", "package-0", 400'000);
  EXPECT_NEAR(*meter.joules(), 0.1, 1e-9);
  write_zone(folder, "intel-rapl:1", "package-1", 60'000);
  write_zone(folder, "intel-rapl:0", "package-0", 20'000);
  EXPECT_NEAR(*meter.joules(), 0.62 + 0.01, 1e-9);
}

TEST(Energy, IsNotToldWhereTheSystemDoesNot) {
  const TemporaryFolder folder;
  EXPECT_FALSE(EnergyMeter(folder.path("")).joules());
  EXPECT_FALSE(EnergyMeter(folder.path("absent")).joules());
  write_zone(folder, "intel-rapl:0", "package-0", 100);
  folder.write("intel-rapl:0/energy_uj", "none");
  EXPECT_FALSE(EnergyMeter(folder.path("")).joules());
}

}  // namespace
}  // namespace hetsynth
