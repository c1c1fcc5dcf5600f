#include "runtime/rank/energy.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace hetsynth {
namespace {

namespace fs = std::filesystem;

/// None if the file is not there, may not be read, or holds something else.
std::optional<int64_t> number_in(const std::string& file) {
  std::ifstream in(file);
  int64_t out = 0;
  return in >> out && out >= 0 ? std::optional(out) : std::nullopt;
}

}  // namespace

EnergyMeter::EnergyMeter(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string zone = at->path().filename();
    std::string name;
    std::ifstream(at->path() / "name") >> name;
    if (std::ranges::count(zone, ':') != 1 || !name.starts_with("package")) continue;
    const std::string counter = at->path() / "energy_uj";
    const std::optional<int64_t> now = number_in(counter), range = number_in(at->path() / "max_energy_range_uj");
    if (now && range) zones_.push_back({counter, *now, *range});
  }
}

std::optional<double> EnergyMeter::joules() {
  if (zones_.empty()) return std::nullopt;
  int64_t out = 0;
  for (Zone& zone : zones_) {
    const std::optional<int64_t> now = number_in(zone.file);
    if (!now) return std::nullopt;
    out += *now - zone.last + (*now < zone.last ? zone.range : 0);
    zone.last = *now;
  }
  return double(out) * 1e-6;
}

}  // namespace hetsynth
