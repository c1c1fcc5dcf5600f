#include "pipeline/model_options.h"

#include "dsl/base/error.h"

namespace hetsynth {

std::map<std::string, std::string> ModelOptions::settings() const {
  std::map<std::string, std::string> out;
  for (const std::string& entry : set) {
    size_t at = entry.find('=');
    if (at == std::string::npos || at == 0)
      throw UserError({.tag = "--set",
                       .message = "a setting needs a name and a value",
                       .expected = "--set name=value",
                       .found = entry},
                      ExitCode::usage);
    out[entry.substr(0, at)] = entry.substr(at + 1);
  }
  if (batch) out["batch"] = std::to_string(*batch);
  if (turns) out["turns"] = *turns;
  if (freeze) out["freeze"] = *freeze;
  if (gradient_norm) out["gradient_norm"] = "1";
  if (precision) out["precision"] = *precision;
  if (accumulate) out["micro_batches"] = std::to_string(*accumulate);
  return out;
}

}  // namespace hetsynth
