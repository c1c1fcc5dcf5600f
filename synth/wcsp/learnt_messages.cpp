#include "synth/wcsp/learnt_messages.h"

#include <algorithm>

namespace hetsynth::synth {

Rough* LearntMessages::add(int64_t from, int64_t to) {
  begins_[key(from, to)] = messages_.size();
  messages_.resize(messages_.size() + values_.at(to).size(), 0);
  return messages_.data() + begins_.at(key(from, to));
}

const Rough* LearntMessages::line(int64_t from, int64_t to) const {
  const auto it = begins_.find(key(from, to));
  return it == begins_.end() ? nullptr : messages_.data() + it->second;
}

std::vector<int> LearntMessages::places(int64_t variable, const std::vector<int64_t>& values) const {
  std::vector<int> out(values.size(), -1);
  const auto known = values_.find(variable);
  if (known == values_.end()) return out;
  for (size_t x = 0; x < values.size(); ++x) {
    const auto at = std::ranges::find(known->second, values[x]);
    if (at != known->second.end()) out[x] = int(at - known->second.begin());
  }
  return out;
}

}  // namespace hetsynth::synth
