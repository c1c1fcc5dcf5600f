// An installed hetsynth: it finds its headers beside itself, wherever it lies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "hetsynth/build_paths.h"
#include "tests/cli/command.h"

namespace hetsynth::testing {
namespace {

using ::testing::HasSubstr;

TEST(Install, CanBeMovedAndBringsItsHeaders) {
  const Workplace place;
  const std::string folder = place.folder().string();
  const auto shell = [&](const std::string& command) {
    return std::system(("cd '" + folder + "' && " + command + " >out 2>err </dev/null").c_str());
  };
  ASSERT_EQ(shell("cmake --install '" HETSYNTH_BINARY_DIR "' --prefix first"), 0) << place.read("err");
  std::filesystem::rename(place.folder() / "first", place.folder() / "moved");
  const std::string run =
      "HETSYNTH_CACHE_DIR=cache moved/bin/hetsynth run moved/share/hetsynth/examples/mlp.cpp --steps 2 --sample 0";
  EXPECT_EQ(shell(run), 0) << place.read("err");
  EXPECT_THAT(place.read("out"), HasSubstr("2 steps in"));
  // The headers are really those that were moved, not those of the source tree.
  std::ofstream(place.folder() / "moved/lib/hetsynth/include/hetsynth/model.h", std::ios::app)
      << "\n#error these are they\n";
  EXPECT_NE(shell(run), 0);
  EXPECT_THAT(place.read("err"), HasSubstr("these are they"));
}

}  // namespace
}  // namespace hetsynth::testing
