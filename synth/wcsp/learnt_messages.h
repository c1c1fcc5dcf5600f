// What message passing has worked out for one network, told by names, so that it can begin with it in another of the
// same program: at other costs most messages are nearly the same.
#pragma once
#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "synth/support/simd.h"

namespace hetsynth::synth {

/// What the variables of a network and their values are called in all networks of a program.
struct NamedValues {
  std::vector<int64_t> variables;            ///< by variable
  std::vector<std::vector<int64_t>> values;  ///< by variable and value
};

class LearntMessages {
 public:
  /// From how far variables were told apart where this was learnt (synth/wcsp/quotient.h); 0: all were.
  int rounds = 0;

  /// A variable that messages are sent to or from, by the names of its values.
  void add_variable(int64_t name, const std::vector<int64_t>& values) { values_[name] = values; }
  /// What `from` tells `to`, two variables: a line to be filled, by value of `to`. It moves when the next is added.
  Rough* add(int64_t from, int64_t to);
  /// None: not known.
  const Rough* line(int64_t from, int64_t to) const;
  /// By value of a variable: where it stands in the lines that tell it something; -1: not known.
  std::vector<int> places(int64_t variable, const std::vector<int64_t>& values) const;

 private:
  static uint64_t key(int64_t from, int64_t to) { return uint64_t(from) << 32 | uint64_t(to); }

  std::unordered_map<int64_t, std::vector<int64_t>> values_;
  std::unordered_map<uint64_t, size_t> begins_;
  std::vector<Rough> messages_;
};

inline Rough* LearntMessages::add(int64_t from, int64_t to) {
  begins_[key(from, to)] = messages_.size();
  messages_.resize(messages_.size() + values_.at(to).size(), 0);
  return messages_.data() + begins_.at(key(from, to));
}

inline const Rough* LearntMessages::line(int64_t from, int64_t to) const {
  const auto it = begins_.find(key(from, to));
  return it == begins_.end() ? nullptr : messages_.data() + it->second;
}

inline std::vector<int> LearntMessages::places(int64_t variable, const std::vector<int64_t>& values) const {
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
