// Samples that the program hands over, as the ranks ask for them.
#pragma once
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "api/impl.h"
#include "runtime/data/batch_source.h"

namespace hetsynth::api {

/// Where a run stands that goes on from a checkpoint: steps of another size before leave out no sample.
struct RunPlace {
  int64_t first_step = 0;
  int64_t seen_samples = 0;  ///< of the first input
};

/// The samples of one step. What the program said is looked at before any rank computes.
class CallerData : public BatchSource {
 public:
  /// `inputs` outlive it.
  CallerData(const std::vector<StepInput>& inputs, RunPlace place);

  /// Takes what the batch has; throws UserError for a name that is no input, for an input without values, for another
  /// number or type of values than the step has, and for values that the input does not take.
  void take(const Batch& batch, int64_t step);
  /// Asks the source for the samples of every input; throws UserError for values that an input does not take.
  void take(const SampleSource& source, int64_t step);

  void fill(const Node& input, std::span<const Range> ranges, int64_t step, std::span<std::byte> out) const override;
  std::string description() const override { return "data of the program"; }
  int64_t first_sample(const Node& input, int64_t step) const override;

 private:
  void check(const StepInput& input, int64_t step) const;

  const std::vector<StepInput>& inputs_;
  const RunPlace place_;
  std::map<std::string, std::span<const std::byte>> values_;  ///< by input
  std::map<std::string, std::vector<std::byte>> written_;     ///< by a source
};

}  // namespace hetsynth::api
