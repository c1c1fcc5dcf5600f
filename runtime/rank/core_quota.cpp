#include "runtime/rank/core_quota.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

namespace hetsynth {

std::optional<int> cores_of_quota(std::string_view text) {
  std::istringstream words{std::string(text)};
  double quota = 0, period = 0;
  if (!(words >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;  // "max 100000"
  constexpr double most = 1 << 20;
  return std::max(1, static_cast<int>(std::min(most, (quota + period - 1) / period)));
}

namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  std::stringstream out;
  out << std::ifstream(file).rdbuf();
  return out.str();
}

/// Returns quota and period as version 2 has them in cpu.max; in version 1 they are files of their own.
std::string limit_of(const fs::path& group, bool version_2) {
  if (version_2) return text_of(group / "cpu.max");
  return text_of(group / "cpu.cfs_quota_us") + " " + text_of(group / "cpu.cfs_period_us");
}

/// A hierarchy of groups that limits processors: where it is mounted, and the process's group in it.
struct Hierarchy {
  fs::path mount, group;
  bool version_2 = true;
};

std::vector<Hierarchy> hierarchies(const fs::path& root, const std::string& own_group) {
  std::vector<Hierarchy> out;
  std::ifstream groups(own_group);
  for (std::string line; std::getline(groups, line);) {
    // "0::/user.slice/job" of version 2, "4:cpu,cpuacct:/job" of version 1.
    const size_t first = line.find(':'), second = line.find(":/", first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 2);
    if (controllers.empty()) out.push_back({root, group, true});
    if (("," + controllers + ",").find(",cpu,") == std::string::npos) continue;
    for (const std::string& folder : {controllers, std::string("cpu")})
      if (std::error_code none; fs::is_directory(root / folder, none)) {
        out.push_back({root / folder, group, false});
        break;
      }
  }
  return out;
}

}  // namespace

std::optional<int> quota_of_this_process(const std::string& root, const std::string& own_group) {
  std::optional<int> least;
  for (const Hierarchy& hierarchy : hierarchies(root, own_group))
    for (fs::path at = hierarchy.group;; at = at.parent_path()) {
      const std::optional<int> cores = cores_of_quota(limit_of(hierarchy.mount / at, hierarchy.version_2));
      if (cores && (!least || *cores < *least)) least = cores;
      if (at.empty()) break;
    }
  return least;
}

}  // namespace hetsynth
