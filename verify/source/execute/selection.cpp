// Which turns of the loops run for some elements of a block, before it turns out what else they depend on.
#include <algorithm>

#include "verify/source/execute/execution.h"

namespace hetsynth::source {
namespace {

/// Loops that are run in full before it is known what of them is wanted. With 512, one device of NMT at its published
/// size is not decided, and a tiny GPT-2 takes 1.2 s of a core, not 0.4 (bench_source_check).
constexpr int64_t few_turns = 16;

/// Turns of a loop together with those around and inside of it that are not `around` what is wanted; more than a few
/// if there are.
int64_t turns_of_nest(const Outline& outline, int slot, const std::set<int>& around) {
  const auto limited = [](int64_t extent) { return std::min(extent, few_turns + 1); };
  int64_t turns = limited(outline.loops.at(slot).extent()), most_inside = 1;
  for (int other : outline.loops.at(slot).enclosing)
    if (!around.count(other)) turns = limited(turns * limited(outline.loops.at(other).extent()));
  for (const auto& [other, loop] : outline.loops)
    if (in(loop.enclosing, slot)) most_inside = std::max(most_inside, limited(loop.extent()));
  return turns * most_inside;
}

/// Of a loop that only spreads elements: the first two, the last and some between.
std::set<int64_t> some_turns(const Loop& loop) {
  std::set<int64_t> out;
  for (int64_t turn : {int64_t(0), int64_t(1), loop.extent() / 3, loop.extent() * 4 / 7, loop.extent() - 1})
    if (turn < loop.extent()) out.insert(loop.begin + turn);
  return out;
}

}  // namespace

Selection::Selection(const Outline& outline, int block, const std::vector<int64_t>& bytes) {
  std::set<int> around;
  for (const Store& store : outline.stores) {
    if (store.block != block) continue;
    around.insert(store.loops.begin(), store.loops.end());
    for (int64_t byte : bytes) {
      std::map<int, int64_t> counters;
      const bool known = store.affine || store.modulus > 0;
      if (known &&
          !(store.affine ? outline.decode(store, byte, counters, {}) : outline.decode_remainder(store, byte, counters)))
        continue;  // it never writes this one: its loops are left out if no other needs them
      for (int slot : store.loops) {
        if (auto at = counters.find(slot); at != counters.end())
          only[slot].insert(at->second);
        else if (!decided_inside(outline, slot, store, counters))
          full.insert(slot);
      }
    }
  }
  std::erase_if(around, [&](int slot) { return !only.count(slot) && !full.count(slot); });
  leave_others(outline, around);
}

Selection::Selection(const Outline& outline, int block) {
  std::set<int> around;
  for (const Store& store : outline.stores) {
    if (store.block != block || store.affine) continue;
    around.insert(store.loops.begin(), store.loops.end());
    for (int slot : store.loops) {
      if (store.modulus > 0 && store.remainder.coefficients.count(slot))
        only[slot].merge(some_turns(outline.loops.at(slot)));
      else
        full.insert(slot);
    }
  }
  leave_others(outline, around);
}

void Selection::leave_others(const Outline& outline, const std::set<int>& around) {
  for (const auto& [slot, loop] : outline.loops) {
    if (around.count(slot)) continue;
    if (!loop.carried.empty())
      full.insert(slot);
    else if (loop.statement->step == 1 && turns_of_nest(outline, slot, around) > few_turns)
      only[slot];
  }
  for (int slot : full) only.erase(slot);
}

}  // namespace hetsynth::source
