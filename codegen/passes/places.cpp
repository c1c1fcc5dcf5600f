#include "codegen/passes/places.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace hetsynth::codegen {
namespace {

constexpr double most_pairs = 1e8;  ///< of lifetimes that are compared, in all

int64_t most_at_once(const std::vector<Lifetime>& lives) {
  int last = 0;
  for (const Lifetime& live : lives) last = std::max(last, live.last);
  std::vector<int64_t> change(size_t(last) + 2, 0);
  for (const Lifetime& live : lives)
    change[size_t(live.first)] += live.bytes, change[size_t(live.last) + 1] -= live.bytes;
  int64_t most = 0, now = 0;
  for (int64_t c : change) most = std::max(most, now += c);
  return most;
}

Places lowest_places(const std::vector<Lifetime>& lives, const std::vector<int>& order) {
  Places out{std::vector<int64_t>(lives.size(), 0), 0};
  std::vector<int> placed;  // by offset
  for (int number : order) {
    const Lifetime& live = lives[size_t(number)];
    int64_t offset = 0;
    for (int before : placed) {
      const Lifetime& other = lives[size_t(before)];
      const int64_t begin = out.offset_bytes[size_t(before)];
      if (other.first > live.last || live.first > other.last || other.bytes == 0) continue;
      if (begin >= offset + live.bytes) break;
      offset = std::max(offset, begin + other.bytes);
    }
    const auto later =
        std::find_if(placed.begin(), placed.end(), [&](int p) { return out.offset_bytes[size_t(p)] > offset; });
    placed.insert(later, number);
    out.offset_bytes[size_t(number)] = offset;
    out.bytes = std::max(out.bytes, offset + live.bytes);
  }
  return out;
}

int highest(const std::vector<Lifetime>& lives, const Places& places) {
  const auto end = [&](int n) { return places.offset_bytes[size_t(n)] + lives[size_t(n)].bytes; };
  int out = 0;
  for (int n = 1; n < int(lives.size()); ++n)
    if (end(n) > end(out)) out = n;
  return out;
}

}  // namespace

Places place(const std::vector<Lifetime>& lives) {
  Places best;
  if (lives.empty()) return best;
  const int64_t least = most_at_once(lives);
  const double pairs = std::max(1.0, double(lives.size()) * double(lives.size()));
  const int turns = int(std::clamp(most_pairs / pairs, 1.0, 64.0));
  for (auto key : {+[](const Lifetime& live) { return live.bytes; },
                   +[](const Lifetime& live) { return int64_t(live.last - live.first); }}) {
    std::vector<int> order(lives.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      const Lifetime &x = lives[size_t(a)], &y = lives[size_t(b)];
      return std::pair(key(x), x.bytes) > std::pair(key(y), y.bytes);
    });
    for (int turn = 0; turn < turns && (best.offset_bytes.empty() || best.bytes > least); ++turn) {
      Places found = lowest_places(lives, order);
      const auto at = std::find(order.begin(), order.end(), highest(lives, found));
      std::rotate(order.begin(), at, at + 1);
      if (best.offset_bytes.empty() || found.bytes < best.bytes) best = std::move(found);
    }
  }
  return best;
}

}  // namespace hetsynth::codegen
