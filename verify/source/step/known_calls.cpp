// Calls of a function that was looked at before, with the same numbers and with memory laid out alike. What it made
// then was found to be a function of what it read; of what it reads now, it makes the same function: it is looked for
// by the program's instructions alone, and nothing is executed.
#include <algorithm>

#include "verify/source/step/arena_contents.h"

namespace hetsynth::source {
namespace {

bool overlap(int64_t begin, int64_t end, int64_t other_begin, int64_t other_end) {
  return begin < other_end && other_begin < end;
}

/// Calls of a key that memory was laid out differently for.
constexpr size_t most_of_a_key = 4;

}  // namespace

/// Told of a call of which every block was recognised, before its results are put into memory.
void ContentsWalk::remember(const Region& region, const std::vector<Guess>& made) {
  std::optional<Call> call = region.call();
  if (!call) return;
  std::vector<KnownCall>& of_key = known_calls_[call->key];
  if (of_key.size() >= most_of_a_key) return;
  KnownCall known;
  // Where a tensor lies in pieces, expect_pieces looks at those that were not read: that holds for this call alone.
  const auto parameter = [](const Memory::Read& read) { return read.parameter; };
  if (std::ranges::adjacent_find(read_through_, {}, parameter) != read_through_.end()) return;
  for (const Memory::Read& read : read_through_) {
    const Resident* there = memory_.at(read.begin);
    const auto place = call->places.find(read.parameter);
    // It was found to make the same function of what it reads only where that could be anything: no constants, no
    // views.
    if (there && (there->value < 0 || !meaning_.opaque(there->value))) return;
    // What is read beyond the tensor that a pointer leads to may be another one in the next call.
    const bool plain = there && there->value >= 0 && !there->position && place != call->places.end() &&
                       place->second >= there->begin && place->second < there->end;
    if (!plain) return;
    known.reads.push_back({read.parameter, *there});
  }
  for (const Written& block : region.written()) known.written.push_back({block.pointer, block.begin, block.end});
  known.made = made;
  std::vector<ValueId> values;
  for (const Guess& guess : made) values.push_back(guess.value);
  known.known = {opened_for_match_, meaning_.unknowns_behind(values, opened_for_match_)};
  known.call = std::move(*call);
  of_key.push_back(std::move(known));
}

/// Whether what the call reads now lies as what it read then, also where it writes over it. Notes which value stands
/// for which.
bool ContentsWalk::reads_alike(const KnownCall& known, const Call& call, const Region& region, Twins& twins) {
  std::vector<const Resident*> now;
  for (const auto& [parameter, then] : known.reads) {
    const int64_t shift = call.places.at(parameter) - known.call.places.at(parameter);
    const Resident* there = memory_.at(then.begin + shift);
    const bool alike = there && there->value >= 0 && !there->position && there->begin == then.begin + shift &&
                       there->end == then.end + shift && there->strides == then.strides &&
                       meaning_.opaque(there->value) && meaning_.pairs(then.value, there->value, twins);
    if (!alike) return false;
    now.push_back(there);
  }
  if (region.written().size() != known.written.size()) return false;
  for (size_t k = 0; k < known.written.size(); ++k) {
    const Written& block = region.written()[k];
    const auto& [parameter, begin, end] = known.written[k];
    const int64_t shift = call.places.at(parameter) - known.call.places.at(parameter);
    if (block.pointer != parameter || block.begin != begin + shift || block.end != end + shift) return false;
    for (size_t r = 0; r < now.size(); ++r) {
      const Resident& then = known.reads[r].there;
      const bool before = overlap(begin, end, then.begin, then.end);
      if (before != overlap(block.begin, block.end, now[r]->begin, now[r]->end)) return false;
      if (before && begin - then.begin != block.begin - now[r]->begin) return false;
    }
  }
  return true;
}

/// What the blocks of a call hold that is known from an earlier one; nothing if it has to be looked at.
std::optional<std::vector<ContentsWalk::Guess>> ContentsWalk::made_again(const Region& region,
                                                                         const std::vector<std::string>& names) {
  const std::optional<Call> call = region.call();
  const auto found = call ? known_calls_.find(call->key) : known_calls_.end();
  if (found == known_calls_.end()) return std::nullopt;
  for (const KnownCall& known : found->second)
    if (auto out = made_as(known, *call, region, names)) return out;
  return std::nullopt;
}

std::optional<std::vector<ContentsWalk::Guess>> ContentsWalk::made_as(const KnownCall& then_called, const Call& call,
                                                                      const Region& region,
                                                                      const std::vector<std::string>& names) {
  KnownCall known = then_called;
  for (size_t i = 0; i < call.streams.size(); ++i) known.known.streams[known.call.streams[i]] = call.streams[i];
  Twins twins;
  if (!reads_alike(known, call, region, twins)) return std::nullopt;
  memory_.forget_reads();
  std::vector<Guess> out;
  std::vector<std::pair<ValueId, ValueId>> same;
  for (size_t k = 0; k < known.made.size(); ++k) {
    const Written& block = region.written()[k];
    const Guess& then = known.made[k];
    std::optional<ValueId> value;
    for (ValueId candidate : candidates(block, names[size_t(block.pointer)])) {
      Twins trial = twins;
      if (!meaning_.same_function(then.value, candidate, trial, known.known)) continue;
      if (value && meaning_.holds(candidate)) continue;
      if (value && program_.values[size_t(candidate)].node != program_.values[size_t(*value)].node) continue;
      if (value) {
        same.push_back({candidate, *value});
        continue;
      }
      value = candidate;
      twins = std::move(trial);
    }
    // What is in memory already may be made again, but another value may be the same by what is in memory and not by
    // the program's instructions: then that is what this is for.
    if (!value || meaning_.holds(*value)) return std::nullopt;
    out.push_back({*value, then.strides});
  }
  for (const auto& [value, with] : same) meaning_.identify(value, with);
  for (const auto& [parameter, then] : known.reads) {
    const int64_t shift = call.places.at(parameter) - known.call.places.at(parameter);
    places_read_.insert({then.begin + shift, then.end + shift});
  }
  return out;
}

}  // namespace hetsynth::source
