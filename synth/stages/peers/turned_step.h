// A step in turns, as systems whose stages have equal numbers of layers see it.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "synth/model/problem.h"
#include "synth/stages/cut_points.h"
#include "synth/stages/stage_positions.h"
#include "synth/stages/staged_plan.h"
#include "synth/support/stop_token.h"

namespace hetsynth::synth {

struct TurnedStep {
  TurnedStep(Program step, int64_t turns);
  TurnedStep(const TurnedStep&) = delete;
  TurnedStep& operator=(const TurnedStep&) = delete;

  const std::shared_ptr<const Program> program;
  const int64_t turns;
  const StagePositions positions;
  /// By position: 1 where a layer is, 0 elsewhere. A layer is a product with a parameter.
  const std::vector<double> layers;
  int layer_count() const;
  int64_t samples_of_a_turn() const;
  /// For meshes of so many axes; none: of one device.
  std::shared_ptr<const Analysis> analysis(int axes) const;

 private:
  mutable std::map<int, std::shared_ptr<const Analysis>> analyses_;
};

/// The step in so many turns; nothing if it cannot be taken in these, or has no loop of samples.
std::shared_ptr<const TurnedStep> turned_step(const Program& whole, int64_t turns);

/// Whether people try this number of turns with so many stages: powers of two and multiples of the stages, up to 64.
bool usual_turns(int64_t turns, int stages);

/// The turns in which pipelines of other systems are tried.
struct TriedTurns {
  std::vector<std::shared_ptr<const TurnedStep>> steps = {};  ///< in each number above 1
  bool usual_alone = true;                                    ///< with so many stages
  bool at_once = true;  ///< the step in one turn is tried as well, by whom it suits
  bool stages = true;   ///< false: by whom plans without stages suit, alone these
  std::string why_none = "the step cannot be taken in turns";  ///< without steps
  StopToken stop = {};
};

/// The first devices of a cluster as one group of stages that have as many, in the order of the file, and nothing that
/// limits their memory. Devices of other groups may differ.
Cluster first_group(const Cluster& cluster, int stages);

/// Divides positions so that each stage has about the same part of `weights` (by position). A cut may lie up to a
/// quarter of a stage beside its place where less is sent. Returns nothing if there are too few cuts.
std::optional<StageCuts> balanced_cuts(const std::vector<double>& weights, const CutPoints& cuts, int stages);

/// The same, where the first stage has what lies behind the last cut before that which a parameter of the first layers
/// is multiplied with again, and that part of the weights counts with the first position. Returns nothing if there is
/// no such parameter.
std::optional<StageCuts> balanced_ring(const TurnedStep& step, std::vector<double> weights, const CutPoints& cuts,
                                       int stages);

/// Turns under way on each stage with one forward, one backward: one more for each segment that is behind.
std::vector<int> one_for_each_behind(const StageCuts& cuts);

}  // namespace hetsynth::synth
