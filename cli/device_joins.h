// Devices that join a run of one process (hetsynth join), where --balance plan may divide the work anew.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "cli/join_desk.h"
#include "cli/run_options.h"
#include "runtime/training/train.h"

namespace hetsynth::cli {

/// Takes one request after the other: it adds the devices to those that may be planned for, and tells whoever asked
/// what became of it.
class DeviceJoins {
 public:
  /// None are heard unless the run has a cluster file, a checkpoint, beside which requests are, and may plan anew.
  explicit DeviceJoins(const RunOptions& options);

  /// Looks for a request once a second. True: devices were added to `c.all_devices`, for which a plan is to be looked
  /// for.
  bool look(Compilation& c, int64_t step, BetweenSteps& out);
  /// A plan was found: from here on the request is not withdrawn. False: it was before.
  bool take();
  /// The run goes on under a plan for these devices.
  void divided(Compilation& c, const Plan& plan, int64_t next_step);
  /// It goes on as it was.
  void kept(Compilation& c, const std::string& why);

 private:
  void refuse(Compilation& c, const std::string& why);

  std::optional<JoinDesk> desk_;
  std::string cluster_file_;
  std::vector<JoinRequest> waiting_;
  bool is_looked_for_ = false;  ///< a plan with the first of them
  bool is_taken_ = false;
  Cluster before_;  ///< devices without those that are to join
  std::chrono::steady_clock::time_point looked_;
};

}  // namespace hetsynth::cli
