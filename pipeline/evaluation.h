// The evaluation of a model beside its training: a program of its own, without gradients and dropout, which takes over
// parameters from the ranks that train.
#pragma once
#include <map>
#include <string>

#include "dsl/spmd/migration.h"
#include "pipeline/pipeline.h"
#include "runtime/executor.h"

namespace hetsynth {

/// The settings of a model that is trained as they are for its evaluation: without those that only training has
/// (micro-batches, turns, the norm of the gradients, what is frozen).
std::map<std::string, std::string> evaluation_settings(const Compilation& training);

/// What the evaluation of a model that is trained is compiled from: the same file, settings and cluster, but for what
/// only training has, pins and plans as well. The model is not loaded again, if it is loaded.
Compilation evaluation_of(const Compilation& training);

/// What a program that runs beside an executor is planned in: the memory that it leaves of each device.
void leave_memory_to(const Executor& executor, Compilation& beside);

/// How parameters and states get from the ranks of training to those of the evaluation. It has no flaw
/// (verify/migration.h).
Migration migration_to_evaluation(const Compilation& training, const Executor& trained, const Compilation& evaluation,
                                  const Executor& evaluated);

}  // namespace hetsynth
