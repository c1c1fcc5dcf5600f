// Which value of the program a block holds to which turns of loops add at places that are looked up in memory, as the
// gradient of a table. Each turn of the text adds what the same point of the program's sum does, and both go through as
// many: so single turns are executed, and memory holds numbers of chosen places: the ends of the part that the rank
// has, those next to it, and those that numbers of the text name.
#include <algorithm>

#include "verify/source/step/arena_contents.h"

namespace hetsynth::source {
namespace {

constexpr size_t least_looks = 24, most_hits_of_turn = 6;
/// One in so many is at edges, where comparisons come out either way.
constexpr size_t edge_looks = 8;
/// Terms that are more than nothing, without which nothing is decided.
constexpr size_t least_hits = 4;
constexpr size_t most_places = 64, most_places_of_dimension = 24;
/// Turns, each with other numbers in memory, among which one is looked for in which the program adds something: that a
/// token goes to one of 16 experts, as one in 16 does, is found with a probability of 0.9997.
constexpr int most_turns_tried = 128;

}  // namespace

/// Gives integers that are places in some dimension of what a block may hold, or next to such a place.
std::vector<int64_t> ContentsWalk::places_of(const Region& region, const std::vector<ValueId>& values) const {
  std::set<int64_t> ends, named;
  for (ValueId v : values)
    for (const Range& range : meaning_.ranges(v)) {
      if (!meaning_.summed_over(v).empty()) ends.insert({range.lo - 1, range.lo, range.hi - 1, range.hi});
    }
  for (int64_t number : region.numbers()) named.insert({number - 1, number, number + 1});
  std::vector<int64_t> out(ends.begin(), ends.end()), others(named.begin(), named.end());
  PseudoRandom random(0, int64_t(out.size()));
  random.choose_some(out, most_places);
  random.choose_some(others, most_places - out.size());
  out.insert(out.end(), others.begin(), others.end());
  return out;
}

/// Tells what single turns of the text add, and to which elements.
std::vector<ContentsWalk::Term> ContentsWalk::sample_looked_up(Region& region, const Written& block,
                                                               const std::vector<int64_t>& turns,
                                                               const std::vector<ValueId>& values) {
  // Where bounds on counters decide whether a turn adds anything, all are executed.
  if (region.bounded(block)) return {};
  const int64_t count = block.count();
  PseudoRandom random(block.begin, count);
  meaning_.limit = 0;
  // Without any turn it is nothing: what it is, is what turns add alone.
  for (int64_t element : {int64_t(0), count - 1, random.below(count), random.below(count)}) {
    meaning_.choose(Sample::number(1));
    if (region.term(block, element, {}, true) != std::optional<double>(0.0)) return {};
  }
  const std::vector<std::vector<int64_t>> looked_at = turns_to_look_at(turns, region.marks(block), random);
  const std::vector<int64_t> places = places_of(region, values);
  std::vector<Term> out;
  for (size_t i = 0; i < std::max({looked_at.size(), places.size(), least_looks}); ++i) {
    Sample sample{.seed = 1 + i, .positive = i % 2 == 0, .together = i % 3 == 1};
    sample.edge = i % edge_looks == 1;
    if (i % 3 != 2 && !places.empty()) sample.place = places[i % places.size()];
    meaning_.choose(sample);
    const std::vector<int64_t>& turn = looked_at[i % looked_at.size()];
    const auto hits = region.hits_of_turn(block, turn, most_hits_of_turn);
    if (!hits) return {};
    for (const auto& [element, value] : *hits) out.push_back({sample, element, turn, value});
  }
  if (out.size() < least_hits) return {};
  return out;
}

/// Whether single turns also add what the program does to elements whose place is looked up by them: what the text adds
/// to does not tell what it leaves out. Elements are such at the ends of each dimension, and where numbers of the text
/// are.
bool ContentsWalk::places_agree(Region& region, const Written& block, const Guess& guess, const Order& order,
                                const std::vector<int64_t>& turns) {
  const std::vector<Range> ranges = meaning_.ranges(guess.value);
  PseudoRandom random(block.begin + 1, block.count());
  const std::vector<std::vector<int64_t>> looked_at = turns_to_look_at(turns, region.marks(block), random);
  std::vector<Term> terms;
  try {
    for (size_t d = 0; d < ranges.size(); ++d)
      for (int64_t number : places_of_dimension(region, ranges[d], random)) {
        int64_t element = random.below(block.count());
        const Index index = index_at(ranges, guess.strides, element);
        element += (number - index[d]) * guess.strides[d];
        for (size_t e = 0; e < ranges.size(); ++e)
          if (!look_at_place(region, block, guess, order, turns, looked_at, element, e == d ? number : index[e], terms))
            return false;
      }
  } catch (const NotHeld&) {
    return false;
  } catch (const TooLong&) {
    return false;
  }
  const auto hits = std::ranges::count_if(terms, [](const Term& term) { return term.value != 0; });
  if (size_t(hits) >= least_hits && sums_agree(guess, order, turns, terms) &&
      only_reads_differ(guess, order, turns, terms))
    return true;
  dispute(guess, order, turns, terms);
  return false;
}

/// Positions along a dimension that are looked at: its ends, some between, and those that numbers of the text name.
std::vector<int64_t> ContentsWalk::places_of_dimension(const Region& region, const Range& range,
                                                       PseudoRandom& random) const {
  std::set<int64_t> named;
  for (int64_t number : region.numbers())
    for (int64_t at : {number - 1, number, number + 1}) named.insert({at, at + range.lo});
  std::vector<int64_t> out(named.begin(), named.end());
  std::erase_if(out, [&](int64_t at) { return at < range.lo || at >= range.hi; });
  random.choose_some(out, most_places_of_dimension);
  const int64_t extent = range.hi - range.lo;
  for (int64_t at : {int64_t(0), int64_t(1), extent - 1, random.below(extent), random.below(extent)})
    if (at < extent) out.push_back(range.lo + at);
  return out;
}

/// Adds what turns of the text add to the element, where memory names a place. False: turns depend on each other.
bool ContentsWalk::look_at_place(Region& region, const Written& block, const Guess& guess, const Order& order,
                                 const std::vector<int64_t>& turns, const std::vector<std::vector<int64_t>>& looked_at,
                                 int64_t element, int64_t place, std::vector<Term>& terms) {
  PseudoRandom random(block.begin + 1 + element, block.count());
  const auto add = [&](Term term) {
    meaning_.choose(term.sample);
    const std::optional<double> value = region.term(block, element, term.turn, false);
    if (!value) return false;
    term.value = *value;
    terms.push_back(std::move(term));
    return true;
  };
  const auto adds_something = [&](const Term& term) {
    meaning_.choose(term.sample);
    return term_by_program(guess, order, turns, term) != 0;
  };
  bool something = false;
  for (bool together : {false, true}) {
    Term term{{.seed = 3001 + terms.size(), .positive = terms.size() % 4 < 2, .together = together}, element, {}, 0};
    term.sample.place = place;
    term.turn = looked_at[terms.size() % looked_at.size()];
    something = something || adds_something(term);
    if (!add(std::move(term))) return false;
  }
  // A place that is computed, as the expert with the most points is, is none that memory was made to name.
  for (int tried = 0; !something && tried < most_turns_tried; ++tried) {
    Term term{{.seed = 5001 + uint64_t(tried), .positive = tried % 2 == 0}, element, {}, 0};
    for (int64_t extent : turns) term.turn.push_back(random.below(extent));
    something = adds_something(term);
    if (something && !add(std::move(term))) return false;
  }
  return true;
}

}  // namespace hetsynth::source
