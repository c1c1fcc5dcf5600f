// A plan's step as it unfolds, instruction by instruction on every device, for people to look at.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cli/trace_events.h"
#include "dsl/spmd/plan.h"
#include "synth/schedule/overlapped_turns.h"

namespace hetsynth::cli {

/// Where turns overlap, each instruction stands there once for each of them.
class StepAtLength {
 public:
  /// `prices`: of the plan's instructions. All must outlive this.
  StepAtLength(const Plan& plan, const Program& reference, const Cluster& cluster,
               const std::vector<InstructionPrice>& prices);

  const Timeline& timeline() const { return timeline_; }
  /// Returns by instruction of the plan what of it is hidden, in all turns together.
  std::vector<HiddenPart> hidden() const;
  /// As timeline_page draws it.
  std::string page() const;
  /// As trace events: a process per device, in it a row for what it computes, one for what it communicates, and one for
  /// the turns.
  std::string trace() const;
  /// What a rank does.
  std::vector<TraceSlice> slices(int rank) const;
  /// "rank 0 planned: cpu0, stage 0, bubble 12.3 %".
  std::string rank_text(int rank) const;

 private:
  const Plan& plan_;
  const Program& reference_;
  const std::vector<InstructionPrice>& prices_;
  const StepPhases phases_;
  std::optional<OverlappedTurns> turns_;
  Timeline timeline_;
};

}  // namespace hetsynth::cli
