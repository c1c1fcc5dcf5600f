// Source checking of generated programs: what the code generator hands the runtime, held against the SPMD program.
#pragma once
#include <vector>

#include "codegen/interface/device_program.h"
#include "verify/source/check.h"

namespace hetsynth {

/// The narrow view that source checking has of a generated program.
RankSource rank_source(const DeviceProgram& program);

/// The generator's own texts, which those of ranks lean on.
SourceOptions source_options();

struct GeneratedCheck {
  Verdict verdict = Verdict::unknown;  ///< the worst of all ranks
  std::vector<SourceCheck> ranks;      ///< of those that were checked
  int from_cache = 0;                  ///< ranks whose same text was held against the same program before
  double seconds = 0;
  /// The first rank with the worst verdict.
  const SourceCheck& worst() const;
};

/// What a check before a run may take of a rank: some seconds of a core.
constexpr int64_t usual_check_work = 100'000'000;

/// Checks the host text of every rank as generated, several at a time. That a check passed, or that it took more than
/// `most_work` (SourceOptions::work_in_all), is remembered in the disk cache under the hash of everything it depends
/// on. Expects a plan that the verifier proved.
GeneratedCheck check_generated(const Program& reference, const SpmdProgram& program,
                               const std::vector<DeviceProgram>& programs, int64_t most_work = 0);

/// The same for texts of unknown origin: each in a process of its own, which may crash or be killed at its limits.
GeneratedCheck check_foreign(const Program& reference, const SpmdProgram& program,
                             const std::vector<DeviceProgram>& programs);

}  // namespace hetsynth
