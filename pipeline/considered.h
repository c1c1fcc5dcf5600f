// What planning considered beside the plan, as people and scripts are shown it, and why devices were left out.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "dsl/spmd/plan.h"

namespace hetsynth {

/// Why devices of the cluster get nothing, in numbers: the step with all of them, beside this plan's, and what it
/// consists of. Empty where none was left out, or the plan does not say.
std::string why_left_out(const Plan& plan);

/// A line per mesh and set of devices: the step found there and what it consists of, or why there is none.
std::string considered_text(const Prediction& prediction);
nlohmann::ordered_json considered_json(const Prediction& prediction);

}  // namespace hetsynth
