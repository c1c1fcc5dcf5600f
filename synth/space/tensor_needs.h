// What consumers of a tensor ask for, by what they choose.
#pragma once
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "synth/space/rules.h"

namespace hetsynth::synth {

struct Analysis;

/// Values by what matters of them: costs are worked out once for all that are alike.
template <typename T>
struct Grouped {
  std::vector<T> kinds;
  std::vector<int> of;  ///< by value: its kind
  bool operator==(const Grouped&) const = default;
  void add(const T& what) {
    const auto known = std::ranges::find(kinds, what);  // they are few
    of.push_back(int(known - kinds.begin()));
    if (known == kinds.end()) kinds.push_back(what);
  }
};

/// Masks of forms: one of each will do.
using Needs = std::vector<FormMask>;

/// A consumer whose need depends on a variable: what its values ask for, in the order of the masks.
struct VariableNeeds {
  bool late;
  Grouped<const Needs*> masks;  ///< equal needs are one
  bool operator==(const VariableNeeds&) const = default;
};

/// Of all tensors, found when first asked for: what options and forms ask for does not depend on costs.
class TensorNeeds {
 public:
  /// By consumer in program order, then by leaf that takes the tensor's value. Of all values of their variables.
  const std::vector<VariableNeeds>& of(const Analysis& analysis, NodeId node);

 private:
  std::map<int, std::vector<VariableNeeds>> known_;  ///< by tensor situation
  std::set<Needs> distinct_;
};

/// Of some values only.
VariableNeeds needs_among(const VariableNeeds& all, const std::vector<int>& values);

}  // namespace hetsynth::synth
