// Devices that need not be asked what some work takes: others like them are.
#pragma once
#include <vector>

#include "synth/model/cost.h"

namespace hetsynth::synth {

/// Found as they are asked for. The cost model and the shares must outlive this and stay as they are.
class DistinctDevices {
 public:
  DistinctDevices(const CostModel& cost, const Shares& shares);
  /// The first of all devices of one type that have the same parts of such work.
  const std::vector<int>& of(const Work& work) const;

 private:
  std::vector<int> by_one_class(int class_id) const;
  std::vector<int> by_all_classes() const;

  const CostModel& cost_;
  const Shares& shares_;
  mutable std::vector<std::vector<int>> known_;  ///< on one axis by the class that is cut, the last: none
};

}  // namespace hetsynth::synth
