#include "pipeline/evaluation.h"

#include <algorithm>

#include "dsl/base/error.h"
#include "dsl/ir/evaluation.h"
#include "verify/migration.h"

namespace hetsynth {

std::map<std::string, std::string> evaluation_settings(const Compilation& training) {
  std::map<std::string, std::string> settings = model_settings(training);
  for (const char* of_training : {"micro_batches", "turns", "gradient_norm", "freeze"}) settings.erase(of_training);
  settings[evaluation_setting] = "1";
  return settings;
}

Compilation evaluation_of(const Compilation& training) {
  Compilation out;
  static_cast<CompilationInput&>(out) = training;
  out.model_options = {};
  out.model_options.file = training.model_options.file;
  for (const auto& [name, value] : evaluation_settings(training)) out.model_options.set.push_back(name + "=" + value);
  out.plan_file.clear();
  out.plan_json.clear();
  out.certificate_file.clear();
  out.stages.reset();
  out.pins = {};
  out.model = training.model;
  out.stages_done = out.model ? 1 : 0;
  return out;
}

void leave_memory_to(const Executor& executor, Compilation& beside) {
  const std::vector<int64_t> taken = executor.arena_bytes();
  for (size_t rank = 0; rank < taken.size(); ++rank) beside.memory_taken[executor.device_names()[rank]] = taken[rank];
}

Migration migration_to_evaluation(const Compilation& training, const Executor& trained, const Compilation& evaluation,
                                  const Executor& evaluated) {
  const SpmdProgram from = renumbered(training.plan.program, training.reference, evaluation.reference);
  Migration out = migration_between(evaluation.reference, from, evaluation.plan.program,
                                    ranks_that_were(trained.device_names(), evaluated.device_names()),
                                    hosts_of(training.cluster), hosts_of(evaluation.cluster));
  const std::string flaw = flaw_of_migration(evaluation.reference, from, evaluation.plan.program, out);
  HETSYNTH_CHECK(flaw.empty(), "parameters get from training to its evaluation: " + flaw);
  return out;
}

}  // namespace hetsynth
