// When a search has to end: asked, and told of the work done, wherever it spends time.
#pragma once
#include <cstdint>
#include <functional>
#include <utility>

namespace hetsynth::synth {

/// Answers "may it go on?". Once it has said no it keeps saying no.
class StopToken {
 public:
  StopToken() = default;
  /// `work`: where what is spent is added up, or none; it must outlive this.
  explicit StopToken(std::function<bool()> keep_going, int64_t* work = nullptr)
      : keep_going_(std::move(keep_going)), work_(work) {}
  bool stopped() const {
    if (!stopped_ && keep_going_) stopped_ = !keep_going_();
    return stopped_;
  }
  /// So many entries of cost tables were looked at.
  void spend(int64_t entries) const {
    if (work_) *work_ += entries;
  }

 private:
  std::function<bool()> keep_going_;
  int64_t* work_ = nullptr;
  mutable bool stopped_ = false;
};

}  // namespace hetsynth::synth
