// Golden text: what a stage prints is compared with a reviewed file under tests/golden. To write the files anew:
// HETSYNTH_UPDATE_GOLDEN=1 ctest --preset dev
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "hetsynth/build_paths.h"

namespace hetsynth::testing {

inline void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(HETSYNTH_SOURCE_DIR) + "/tests/golden/" + name;
  if (std::getenv("HETSYNTH_UPDATE_GOLDEN")) {
    std::ofstream(path) << text;
    GTEST_SKIP() << "wrote " << path;
  }
  std::ifstream file(path);
  ASSERT_TRUE(file) << path << " is missing; HETSYNTH_UPDATE_GOLDEN=1 writes it";
  std::stringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(text, expected.str()) << "differs from " << path;
}

}  // namespace hetsynth::testing
