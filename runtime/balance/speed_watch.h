// Notices that a device has become slower or faster for good, whatever single steps do.
#pragma once
#include <cstddef>
#include <vector>

namespace hetsynth {

/// A control chart of one quantity that is above 0: two cumulative sums (CUSUM: E. S. Page, Continuous inspection
/// schemes, 1954) over the deviations of its logarithm from its own mean so far, in their own standard deviation so far
/// (self-starting: D. M. Hawkins, 1987), so that neither has to be known. A change is told of where a sum exceeds
/// `decision`, which takes four steps for a device at half of its speed and one in some million steps for none at all.
class ControlChart {
 public:
  /// Takes in a value; whether it shows that the level has changed. From then on the level is the new one.
  bool add(double value);
  /// The mean of the logarithms since the last change, as a value; 1 before the first.
  double level() const;
  /// Values since the last change.
  int count() const { return count_; }

 private:
  void learn(double value);

  int count_ = 0;
  double mean_ = 0, squares_ = 0;              ///< of logarithms: their mean, and the sum of squared deviations from it
  double up_ = 0, down_ = 0;                   ///< the cumulative sums
  std::vector<double> since_up_, since_down_;  ///< logarithms since the sum left 0
};

/// The seconds that each rank computes in a step, as multiples of what was planned.
class SpeedWatch {
 public:
  /// A change of a rank's level, as multiples of the planned time.
  struct Change {
    int rank = 0;
    double before = 1, now = 1;
  };

  /// `planned`: seconds by rank; a rank with 0 is not watched.
  explicit SpeedWatch(std::vector<double> planned);
  /// Takes in a step's seconds by rank.
  std::vector<Change> add(const std::vector<double>& seconds);
  /// How many times as long as planned each rank takes.
  std::vector<double> slowness() const;
  /// Steps since the last change of some rank's level.
  int settled_steps() const;

 private:
  std::vector<double> planned_;
  std::vector<ControlChart> charts_;
};

}  // namespace hetsynth
