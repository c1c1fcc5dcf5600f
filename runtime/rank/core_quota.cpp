#include "runtime/rank/core_quota.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace hetsynth {

std::optional<int> cores_of_quota(std::string_view text) {
  std::istringstream words{std::string(text)};
  double quota = 0, period = 0;
  if (!(words >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;  // "max 100000"
  constexpr double most = 1 << 20;
  return std::max(1, static_cast<int>(std::min(most, (quota + period - 1) / period)));
}

std::optional<int> quota_of_this_process(const std::string& root, const std::string& own_group) {
  // "0::/user.slice/job" of version 2; other lines are of version 1.
  std::filesystem::path group;
  std::ifstream groups(own_group);
  for (std::string line; std::getline(groups, line);)
    if (line.starts_with("0::/")) group = line.substr(4);
  std::optional<int> least;
  for (std::filesystem::path at = group;; at = at.parent_path()) {
    std::stringstream text;
    text << std::ifstream(std::filesystem::path(root) / at / "cpu.max").rdbuf();
    const std::optional<int> cores = cores_of_quota(text.str());
    if (cores && (!least || *cores < *least)) least = cores;
    if (at.empty()) return least;
  }
}

}  // namespace hetsynth
