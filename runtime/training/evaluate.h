// A model's loss over data, without training.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/executor.h"

namespace hetsynth {

struct Evaluation {
  double loss =
      0;  ///< over all samples: the sum of totals over that of counts, or else the mean of the batches' losses
  int64_t batches = 0;
  int64_t samples = 0;  ///< of the model's first input
  double seconds = 0;
  std::vector<std::pair<std::string, double>> metrics;  ///< means over the batches, in the first process
  bool complete = true;                                 ///< false: a signal ended it before its last batch
};

/// How many samples of the program's first input so many batches have.
int64_t samples_of_batches(const Program& reference, const BatchSource& data, int64_t batches);

/// How many whole batches the data have, at most `most` (0: any number). Data that are made up have no end: then it is
/// `most`, or 16. Throws UserError if there is not a single batch.
int64_t batches_to_evaluate(const Program& reference, const BatchSource& data, int64_t most);

/// Runs the first `batches` batches of the data through an evaluation of the model (dsl/transform/evaluation.h), each
/// sample once. The same data give bitwise the same loss. Stops early at a signal (the caller has an InterruptGuard),
/// and then says how far it came. Throws what Executor::step throws. Of several processes all call it alike and get the
/// same.
Evaluation evaluate(Executor& executor, const BatchSource& data, int64_t batches);

/// The same where each batch may come from a source of its own: `data_of` is asked for it in turn, and what it gives is
/// good until the next call.
Evaluation evaluate(Executor& executor, const std::function<const BatchSource&(int64_t)>& data_of, int64_t batches);

}  // namespace hetsynth
