#include "runtime/rank/stall_watch.h"

#include <fmt/format.h>

#include <algorithm>

namespace hetsynth {

StallWatch::StallWatch(const RunState& state, double quiet_seconds)
    : state_(state), quiet_seconds_(quiet_seconds), seen_(size_t(state.ranks())) {
  for (Seen& seen : seen_) seen.tell_at = quiet_seconds_;
}

std::optional<std::string> StallWatch::look(double now) {
  // A gap is a laptop that slept or a job that was suspended.
  constexpr double longest_look = 5;
  const double passed = before_ ? std::min(now - *before_, longest_look) : 0;
  before_ = now;
  std::string text;
  for (int rank = 0; rank < state_.ranks(); ++rank) {
    const RunState::Progress progress = state_.progress(rank);
    Seen& seen = seen_[size_t(rank)];
    if (progress.stopped || progress.arrivals != seen.arrivals) {
      seen = {progress.arrivals, 0, quiet_seconds_};
      continue;
    }
    seen.quiet += passed;
    if (seen.quiet < seen.tell_at) continue;
    seen.tell_at = 2 * seen.quiet;
    text += fmt::format("{}{} has computed for {:.0f} s without meeting the others or ending its step",
                        text.empty() ? "" : "; ", state_.describe(rank), seen.quiet);
  }
  if (text.empty()) return {};
  for (int rank = 0; rank < state_.ranks(); ++rank)
    if (const RunState::Progress progress = state_.progress(rank); !progress.waits_in.empty())
      text += fmt::format("; {} waits in {}", state_.describe(rank), progress.waits_in);
  return text;
}

}  // namespace hetsynth
