// What people and logs are told of balancing.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dsl/spmd/plan.h"
#include "runtime/balance/resizing.h"
#include "runtime/balance/speed_watch.h"
#include "runtime/training/train.h"

namespace hetsynth::cli {

/// Predicted seconds of a step at the measured speeds: under the plan that runs, and under the best other one.
struct PredictedSteps {
  double now = 0;
  double next = 0;  ///< 0: there is none
};

/// Each adds a line for people and a record, which docs/runtime.md describes.
void tell_speed(int64_t step, const std::string& device, const SpeedWatch::Change& change, BetweenSteps& out);
void tell_kept(int64_t step, int64_t asked_at, const std::string& why, const PredictedSteps& predicted,
               BetweenSteps& out);
void tell_division(int64_t step, int64_t asked_at, const Plan& plan, bool same_program, const PredictedSteps& predicted,
                   int64_t moved_bytes, double pause_seconds, BetweenSteps& out);

/// What was chosen to do about the speeds at hand. `devices`: names by rank.
void tell_remedy(int64_t step, Remedy taken, const RemedyFigures& figures, const std::vector<std::string>& devices,
                 BetweenSteps& out);
/// "b 48 %, d 20 %": the parts of columns that devices leave out; "nothing".
std::string text_of_left_out(const std::vector<double>& parts, const std::vector<std::string>& devices);

}  // namespace hetsynth::cli
