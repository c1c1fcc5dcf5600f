// The best plan of a mesh so far, and others that were met on the way.
#pragma once
#include <vector>

#include "synth/schedule/candidate.h"
#include "synth/support/budget.h"

namespace hetsynth::synth {

class Incumbent {
 public:
  /// `to_beat`: the cost of a plan from elsewhere. `runners_up`: so many others that fit are kept.
  Incumbent(Budget& budget, Picoseconds to_beat, size_t runners_up)
      : budget_(budget), to_beat_(to_beat), most_runners_up_(runners_up) {}

  /// Tells of it if it is the best and fits. An empty candidate is ignored.
  void keep(const Candidate& candidate);
  /// By the plan from elsewhere.
  Picoseconds to_beat() const { return to_beat_; }
  /// By that or the best; `forbidden` if none fits.
  Picoseconds cost_to_beat() const;
  bool fits() const { return !best.empty() && best.fits(); }
  /// Others that fit, the fastest first.
  const std::vector<Candidate>& runners_up() const { return runners_up_; }

  Candidate best;  ///< may be empty; its bound is raised by whoever proves one

 private:
  void remember(const Candidate& candidate, const Candidate& faster);

  Budget& budget_;
  const Picoseconds to_beat_;
  const size_t most_runners_up_;
  std::vector<Candidate> runners_up_;
};

}  // namespace hetsynth::synth
