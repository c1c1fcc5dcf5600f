#include "api/source_ahead.h"

#include <utility>

namespace hetsynth::api {

SourceAhead::SourceAhead(SampleSource source, const std::vector<StepInput>& inputs, RunPlace place, int64_t last_step)
    : source_(std::move(source)),
      last_step_(last_step),
      now_(std::make_unique<CallerData>(inputs, place)),
      next_(std::make_unique<CallerData>(inputs, place)) {}

SourceAhead::~SourceAhead() {
  if (asking_.valid()) asking_.wait();
}

const CallerData& SourceAhead::of_step(int64_t step) {
  if (asking_.valid()) asking_.wait();
  if (std::exchange(asked_for_, -1) == step) {
    std::exchange(asking_, {}).get();
    std::swap(now_, next_);
  } else {
    asking_ = {};
    now_->take(source_, step);
  }
  if (step < last_step_) {
    asked_for_ = step + 1;
    asking_ = std::async(std::launch::async, [this, step] { next_->take(source_, step + 1); });
  }
  return *now_;
}

}  // namespace hetsynth::api
