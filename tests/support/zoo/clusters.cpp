#include "tests/support/zoo/clusters.h"

#include <algorithm>
#include <filesystem>

#include "hetsynth/build_paths.h"

namespace hetsynth::testing {
namespace {

constexpr const char* folders[] = {HETSYNTH_SOURCE_DIR "/examples/clusters", HETSYNTH_SOURCE_DIR "/bench/clusters"};

}  // namespace

std::vector<std::string> listed_clusters() {
  std::vector<std::string> names;
  for (const char* folder : folders) {
    const auto first = names.size();
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
    std::sort(names.begin() + ptrdiff_t(first), names.end());
  }
  return names;
}

std::string cluster_file(const std::string& name) {
  for (const char* folder : folders) {
    const std::string file = std::string(folder) + "/" + name + ".toml";
    if (std::filesystem::exists(file)) return file;
  }
  return name;
}

}  // namespace hetsynth::testing
