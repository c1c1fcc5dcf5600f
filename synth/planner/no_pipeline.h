// Why a step has no pipeline of the stages that were asked for.
#pragma once
#include "dsl/base/error.h"
#include "dsl/transform/turns.h"
#include "synth/planner/pipelines.h"

namespace hetsynth {

/// What stands in the way: too few devices, a step that cannot be taken in turns, or memory; then which stage lacks how
/// much, and other turns that would do, where these were asked for. `options`: with the stages.
UserError why_no_pipeline(const Program& whole, const Cluster& cluster, const PipelineOptions& options);

/// The error, with a note about what forbids turns.
UserError with_refusal(const UserError& error, const Program& whole, const NoTurns& refusal);

}  // namespace hetsynth
