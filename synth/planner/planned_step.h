// The number of turns in which a step is taken, as a choice of planning.
#pragma once
#include <optional>

#include "dsl/transform/turns.h"
#include "synth/planner/synthesize.h"

namespace hetsynth {

/// A step as it is planned.
struct PlannedStep {
  Plan plan;                       ///< its prediction says which numbers of turns were planned
  std::optional<Program> program;  ///< the step in turns that the plan is of; none: the whole step at once
  TurnCount turns = {};
};

/// Plans the whole step at once. Where no such plan fits, or the fastest one is short of memory, plans the step in
/// turns (dsl/transform/turns.h) as well, in at least twice as many each time, until memory is not short or more turns
/// were slower twice. More of them than memory asks for gain nothing: they repeat launches and collectives. Of normal
/// effort their number is chosen by quick plans. Then tries pipelines and Galvatron's plan of the whole step, of full
/// effort also the pipelines of other systems. Throws as synthesize does if no number of turns has a plan; the message
/// then says what forbids turns, if something does.
PlannedStep synthesize_in_turns(const Program& whole, const Cluster& cluster, const SynthesisOptions& options);

/// Plans `in_turns`, which is the step `whole` in `count` turns, without and with a pipeline.
PlannedStep synthesize_at_turns(const Program& whole, const Program& in_turns, TurnCount count, const Cluster& cluster,
                                const SynthesisOptions& options);

}  // namespace hetsynth
