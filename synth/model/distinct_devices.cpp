#include "synth/model/distinct_devices.h"

#include <algorithm>
#include <map>

namespace hetsynth::synth {

DistinctDevices::DistinctDevices(const CostModel& cost, const Shares& shares) : cost_(cost), shares_(shares) {
  known_.resize(shares.size() == 1 ? shares[0].size() + 1 : 1);
}

const std::vector<int>& DistinctDevices::of(const Work& work) const {
  const int class_id = shares_.size() == 1 ? class_of(work.class_id[0]) : -1;
  std::vector<int>& devices = class_id >= 0 ? known_[size_t(class_id)] : known_.back();
  if (devices.empty())
    devices = shares_.empty() ? std::vector<int>{0} : shares_.size() == 1 ? by_one_class(class_id) : by_all_classes();
  return devices;
}

std::vector<int> DistinctDevices::by_one_class(int class_id) const {
  const auto held = [&](int d) {
    return class_id < 0 ? 0 : shares_[0][size_t(class_id)][size_t(cost_.coordinate(d, 0))];
  };
  std::vector<int> out;
  for (int d = 0; d < cost_.device_count(); ++d)
    if (std::ranges::none_of(out, [&](int o) { return held(o) == held(d) && cost_.type_of(o) == cost_.type_of(d); }))
      out.push_back(d);
  return out;
}

/// Where an axis divides the parts of another, what comes before counts as well: coordinates along axis 0 are alike
/// that have as much of every class, along other axes none.
std::vector<int> DistinctDevices::by_all_classes() const {
  const size_t size = size_t(cost_.mesh().axes[0].size);
  std::vector<size_t> first;  // by coordinate: one that has as much
  const auto as_much = [&](size_t at, size_t as) {
    return std::ranges::all_of(shares_[0], [&](const std::vector<int64_t>& along) { return along[at] == along[as]; });
  };
  for (size_t at = 0; at < size; ++at) {
    size_t as = 0;
    while (as < at && (first[as] != as || !as_much(at, as))) ++as;
    first.push_back(as);
  }
  std::map<std::vector<int>, int> distinct;
  std::vector<int> out;
  for (int d = 0; d < cost_.device_count(); ++d) {
    std::vector<int> key{cost_.type_of(d), int(first[size_t(cost_.coordinate(d, 0))])};
    for (size_t a = 1; a < shares_.size(); ++a) key.push_back(cost_.coordinate(d, int(a)));
    if (distinct.try_emplace(std::move(key), d).second) out.push_back(d);
  }
  return out;
}

}  // namespace hetsynth::synth
