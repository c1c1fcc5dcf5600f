#include "verify/source/meaning/linear.h"

#include <algorithm>

namespace hetsynth::source {
namespace {

int64_t rounded_down(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/// Multiples of `by`, and what is left, if that stays from 0 to below `by`.
bool splits(const Linear& number, int64_t value, int64_t by, const Counters& counters, Linear& multiples,
            Linear& rest) {
  if (!number.known || by < 1) return false;
  int64_t low = value - rounded_down(value, by) * by, high = low;
  for (size_t c = 0; c < counters.now.size(); ++c) {
    const int64_t change = number.by[c];
    (change % by == 0 ? multiples : rest).by[c] = change;
    if (change % by == 0) continue;
    const Range& range = counters.ranges[c];
    const int64_t first = change * (range.lo - counters.now[c]), last = change * (range.hi - 1 - counters.now[c]);
    low += std::min(first, last);
    high += std::max(first, last);
  }
  return low >= 0 && high < by;
}

const Linear unknown{{}, false};

}  // namespace

Linear Linear::counter(size_t position) {
  Linear out;
  out.by.at(position) = 1;
  return out;
}

void Linear::add(const Linear& other, int64_t times) {
  known = known && other.known;
  for (size_t c = 0; c < most; ++c) by[c] += other.by[c] * times;
}

Linear quotient(const Linear& number, int64_t value, int64_t by, const Counters& counters) {
  if (number.constant()) return {};
  Linear multiples, rest;
  if (!splits(number, value, by, counters, multiples, rest)) return unknown;
  for (int64_t& change : multiples.by) change /= by;
  return multiples;
}

Linear remainder(const Linear& number, int64_t value, int64_t by, const Counters& counters) {
  if (number.constant()) return {};
  Linear multiples, rest;
  return splits(number, value, by, counters, multiples, rest) ? rest : unknown;
}

std::vector<int64_t> next_to_bound(const Linear& number, int64_t value, int64_t bound, size_t position,
                                   const Counters& counters) {
  std::vector<int64_t> out;
  const int64_t change = number.by[position];
  if (change == 0) return out;
  const int64_t reached = counters.now[position] + rounded_down(bound - value, change);
  for (const int64_t at : {reached - 1, reached, reached + 1, reached + 2})
    if (at >= counters.ranges[position].lo && at < counters.ranges[position].hi) out.push_back(at);
  return out;
}

}  // namespace hetsynth::source
