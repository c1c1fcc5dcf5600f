// The evaluation of a model beside its training, as Training::evaluate has it.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/impl.h"
#include "pipeline/evaluation.h"
#include "runtime/training/evaluate.h"

namespace hetsynth::api {

/// Throws UserError if a plan is not proved, or if its source does not do what it says, unless `unverified`.
void require_right(Compilation& compilation, bool unverified);

class Evaluating {
 public:
  /// Plans the evaluation in the memory that `trained` leaves of the devices, proves it and compiles it. Throws as
  /// Training's constructor does.
  Evaluating(const Compilation& training, const Executor& trained, bool unverified);

  /// Over the data that a file or folder holds, each sample once, at most `batches` batches of them; 0: all.
  EvaluationResult over(const std::string& data, int64_t batches);
  EvaluationResult over(const SampleSource& source, int64_t batches);

 private:
  EvaluationResult run(const std::function<const BatchSource&(int64_t)>& data_of, int64_t batches);

  const Compilation& training_;
  const Executor& trained_;
  Compilation compilation_;
  std::unique_ptr<Executor> executor_;  ///< null: a failure left it good for nothing
};

}  // namespace hetsynth::api
