// Checks of generated source beside the training that runs it.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/interface/device_program.h"
#include "dsl/spmd/plan.h"
#include "runtime/balance/gentle_process.h"
#include "runtime/processes/job.h"
#include "runtime/training/generated_check.h"

namespace hetsynth::cli {

/// Holds generated source of a plan against it, as check_generated does.
using CheckOfSource =
    std::function<GeneratedCheck(const Program&, const SpmdProgram&, const std::vector<DeviceProgram>&)>;

/// Divisions that a run trains under, or did, and whose source has not passed its check yet. Each process checks that
/// of its own ranks, one division after the other, in a process that takes a small part of a core.
class SourceChecksBeside {
 public:
  /// All outlive it. Of several processes all call everything here alike.
  SourceChecksBeside(const Program& reference, CheckOfSource check, Job* job);

  /// `programs`: of this process's ranks.
  void add(Plan plan, std::vector<DeviceProgram> programs);
  bool empty() const { return divisions_.empty(); }
  /// The plan of the first.
  const Plan& first() const { return divisions_.front().plan; }
  /// Begins the check of the first division, or looks whether it is over in all processes; then it is no more among
  /// them. `wait`: as fast as it can, until it is. Gives what is wrong with its source; empty: nothing is known to be.
  std::string go_on(bool wait);

 private:
  struct Division {
    Plan plan;
    std::vector<DeviceProgram> programs;
  };
  std::string flaw(const Division& division) const;

  const Program& reference_;
  const CheckOfSource check_;
  Job* const job_;
  std::vector<Division> divisions_;
  std::unique_ptr<GentleProcess> checking_;  ///< the first
  std::optional<std::string> checked_;       ///< its flaw; empty: it passed here
};

}  // namespace hetsynth::cli
