// Samples of a source of the program, asked for while the step before is taken.
#pragma once
#include <cstdint>
#include <future>
#include <limits>
#include <memory>

#include "api/caller_data.h"

namespace hetsynth::api {

class SourceAhead {
 public:
  /// `inputs` outlive it. The source is asked for no step after `last_step`.
  SourceAhead(SampleSource source, const std::vector<StepInput>& inputs, RunPlace place,
              int64_t last_step = std::numeric_limits<int64_t>::max());
  /// Waits until the source, if it is at work, has done what it was asked for.
  ~SourceAhead();
  SourceAhead(const SourceAhead&) = delete;
  SourceAhead& operator=(const SourceAhead&) = delete;

  /// The samples of a step, good until the next call; those of the step after it are asked for on another thread.
  /// Throws what the source threw for the step, and UserError for values that an input does not take.
  const CallerData& of_step(int64_t step);

 private:
  const SampleSource source_;
  const int64_t last_step_;
  std::unique_ptr<CallerData> now_, next_;
  std::future<void> asking_;  ///< fills `next_`
  int64_t asked_for_ = -1;    ///< step that `next_` is of, or will be
};

}  // namespace hetsynth::api
