// The energy that the processors of this machine take, as far as the system tells it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hetsynth {

/// Counters of RAPL (Intel's and AMD's processors), which Linux shows as files below /sys/class/powercap
/// (Documentation/power/powercap of its kernel), to root alone since 2020. A zone "intel-rapl:N" called "package-N" is
/// a whole processor; what is inside of it, and the zone of the platform, would be counted twice.
class EnergyMeter {
 public:
  explicit EnergyMeter(const std::string& folder = "/sys/class/powercap");
  /// What all processors took since the call before, or since the meter was made; none: the system does not tell.
  std::optional<double> joules();

 private:
  struct Zone {
    std::string file;
    int64_t last = 0;   ///< microjoules
    int64_t range = 0;  ///< beyond which the counter begins at 0 again
  };
  std::vector<Zone> zones_;
};

}  // namespace hetsynth
