// A fixture whose caches lie in a folder of their own.
#pragma once
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace hetsynth {

class TemporaryCache : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "hetsynth-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    ::setenv("HETSYNTH_CACHE_DIR", (folder_ / "cache").c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("HETSYNTH_CACHE_DIR");
    std::filesystem::remove_all(folder_);
  }
  static std::string read(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void write(const std::filesystem::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  }
  /// Files of one kind in the cache.
  std::vector<std::filesystem::path> entries(const std::string& kind) const {
    std::vector<std::filesystem::path> found;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "cache" / kind, error))
      found.push_back(entry.path());
    return found;
  }

  std::filesystem::path folder_;
};

}  // namespace hetsynth
