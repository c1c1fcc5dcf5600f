#include "dsl/ir/evaluation.h"

#include <fmt/format.h>

#include <utility>

#include "dsl/base/error.h"
#include "dsl/ir/trace.h"

namespace hetsynth {

bool is_evaluation(const Trace& trace) { return trace.settings.contains(evaluation_setting); }

void take_evaluation_setting(Trace& trace) {
  const auto setting = trace.settings.find(evaluation_setting);
  if (setting == trace.settings.end()) return;
  const auto refuse = [&](const std::string& message, const std::string& expected, const std::string& found,
                          const std::string& mend) {
    throw UserError({{trace.program.model_file}, evaluation_setting, message, expected, found, mend}, ExitCode::usage);
  };
  if (setting->second != "1")
    refuse("this does not say whether the model is evaluated", "evaluation=1, or no such setting for training",
           "\"" + setting->second + "\"", "");
  if (trace.micro_batches > 1)
    refuse("an evaluation has no gradients to add up over several batches", "a step of one batch",
           std::to_string(trace.micro_batches) + " micro-batches", "leave --accumulate out");
  if (trace.turns != "1")
    refuse("an evaluation has no gradients to add up over turns", "a step in one turn", trace.turns + " turns",
           "leave --turns out");
  for (const auto& [name, option] : {std::pair("gradient_norm", "--gradient-norm"), std::pair("freeze", "--freeze")})
    if (const auto given = trace.settings.find(name); given != trace.settings.end())
      refuse("an evaluation trains nothing, and has no gradients", fmt::format("no setting {}", name),
             fmt::format("{}={}", name, given->second), fmt::format("leave {} out", option));
  trace.settings_used.insert(evaluation_setting);
  trace.program.options.push_back({evaluation_setting, "1", "the forward pass as it is without training"});
}

}  // namespace hetsynth
