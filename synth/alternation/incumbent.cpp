#include "synth/alternation/incumbent.h"

#include <algorithm>

namespace hetsynth::synth {

void Incumbent::keep(const Candidate& candidate) {
  const bool fastest = better(candidate, best);
  remember(fastest ? best : candidate, fastest ? candidate : best);
  if (!fastest) return;
  best = candidate;
  if (best.fits()) budget_.found(to_seconds(best.cost), to_seconds(std::min(best.bound, best.cost)));
}

Picoseconds Incumbent::cost_to_beat() const { return std::min(to_beat_, fits() ? best.cost : forbidden); }

/// Among the runners-up, unless it is the same program at the same shares as `faster` or one that is kept.
void Incumbent::remember(const Candidate& candidate, const Candidate& faster) {
  if (candidate.empty() || !candidate.fits()) return;
  const auto same = [&](const Candidate& other) {
    return other.shares == candidate.shares && other.choices == candidate.choices &&
           other.recomputed == candidate.recomputed;
  };
  if (same(faster) || std::any_of(runners_up_.begin(), runners_up_.end(), same)) return;
  const auto slower = [](const Candidate& a, const Candidate& b) { return a.cost < b.cost; };
  runners_up_.insert(std::upper_bound(runners_up_.begin(), runners_up_.end(), candidate, slower), candidate);
  if (runners_up_.size() > most_runners_up_) runners_up_.pop_back();
}

}  // namespace hetsynth::synth
