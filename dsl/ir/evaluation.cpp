#include "dsl/ir/evaluation.h"

#include "dsl/base/error.h"
#include "dsl/ir/trace.h"

namespace hetsynth {

bool is_evaluation(const Trace& trace) { return trace.settings.contains(evaluation_setting); }

void take_evaluation_setting(Trace& trace) {
  const auto setting = trace.settings.find(evaluation_setting);
  if (setting == trace.settings.end()) return;
  if (setting->second != "1")
    throw UserError({.where = {trace.program.model_file},
                     .tag = evaluation_setting,
                     .message = "this does not say whether the model is evaluated",
                     .expected = "evaluation=1, or no such setting for training",
                     .found = "\"" + setting->second + "\""},
                    ExitCode::usage);
  if (trace.micro_batches > 1)
    throw UserError({.where = {trace.program.model_file},
                     .tag = evaluation_setting,
                     .message = "an evaluation has no gradients to add up over several batches",
                     .expected = "a step of one batch",
                     .found = std::to_string(trace.micro_batches) + " micro-batches",
                     .mend = "leave --accumulate out"},
                    ExitCode::usage);
  if (trace.turns != "1")
    throw UserError({.where = {trace.program.model_file},
                     .tag = evaluation_setting,
                     .message = "an evaluation has no gradients to add up over turns",
                     .expected = "a step in one turn",
                     .found = trace.turns + " turns",
                     .mend = "leave --turns out"},
                    ExitCode::usage);
  trace.settings_used.insert(evaluation_setting);
  trace.program.options.push_back({evaluation_setting, "1", "the forward pass as it is without training"});
}

}  // namespace hetsynth
