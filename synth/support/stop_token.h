// When a search has to end: asked wherever it spends time.
#pragma once
#include <functional>

namespace hetsynth::synth {

/// Answers "may it go on?". Once it has said no it keeps saying no.
class StopToken {
 public:
  StopToken() = default;
  explicit StopToken(std::function<bool()> keep_going) : keep_going_(std::move(keep_going)) {}
  bool stopped() const {
    if (!stopped_ && keep_going_) stopped_ = !keep_going_();
    return stopped_;
  }

 private:
  std::function<bool()> keep_going_;
  mutable bool stopped_ = false;
};

}  // namespace hetsynth::synth
