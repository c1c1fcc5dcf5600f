#include "cli/evaluation_input.h"

#include "dsl/ir/evaluation.h"

namespace hetsynth::cli {

Compilation evaluation_of(const Compilation& training) {
  Compilation out;
  static_cast<CompilationInput&>(out) = training;
  out.model_options = {};
  out.model_options.file = training.model_options.file;
  std::map<std::string, std::string> settings = model_settings(training);
  settings.erase("micro_batches");
  settings.erase("turns");
  settings[evaluation_setting] = "1";
  for (const auto& [name, value] : settings) out.model_options.set.push_back(name + "=" + value);
  out.plan_file.clear();
  out.plan_json.clear();
  out.certificate_file.clear();
  out.stages.reset();
  out.pins = {};
  out.model = training.model;
  out.stages_done = out.model ? 1 : 0;
  return out;
}

}  // namespace hetsynth::cli
