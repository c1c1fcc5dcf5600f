// Whether a block whose elements are sums is, in all turns and elements, what it was found to be in some: further ones
// are looked at where something may change that the first ones do not show.
#include <algorithm>
#include <cmath>

#include "verify/source/meaning/pseudo_random.h"
#include "verify/source/step/arena_contents.h"

namespace hetsynth::source {
namespace {

/// Elements at which a turn did not add what it should, to be looked at with all turns.
constexpr size_t most_disputed_of_turns = 4;

}  // namespace

/// The turn in which the loops go through the point of the program's sum.
std::vector<int64_t> ContentsWalk::turn_of(const Guess& guess, const Order& order, const std::vector<int64_t>& turns,
                                           const std::vector<int64_t>& point) const {
  const std::vector<Range> factors = meaning_.summed_over(guess.value);
  int64_t number = 0;
  for (const size_t f : order) number = number * (factors[f].hi - factors[f].lo) + point[f] - factors[f].lo;
  std::vector<int64_t> out(turns.size());
  for (size_t l = turns.size(); l-- > 0; number /= turns[l]) out[l] = number % turns[l];
  return out;
}

/// Whether turns of the program's sum differ by what they read alone: of the terms, in which nothing that was computed
/// before counts, numbers of loops decide nothing. They may decide whether operands of what a term is computed from
/// have an element if `at_flips` is given, to which turns on either side of that are added.
bool ContentsWalk::only_reads_differ(const Guess& guess, const Order& order, const std::vector<int64_t>& turns,
                                     const std::vector<Term>& terms, std::vector<Term>* at_flips) {
  std::set<std::pair<int64_t, std::vector<int64_t>>> seen;
  for (size_t i = 0; i < terms.size(); ++i) {
    Meaning::Watch watch{.bounded = bounded_turns_, .flips = at_flips != nullptr};
    try {
      meaning_.choose_anew(terms[i].sample);
      term_by_program(guess, order, turns, terms[i], &watch);
    } catch (const NotHeld&) {
      return false;
    } catch (const TooLong&) {
      return false;
    }
    if (!watch.alike) return false;
    if (!at_flips) continue;
    for (const std::vector<int64_t>& point : watch.next_to_flips) {
      Term term = terms[i];
      term.turn = turn_of(guess, order, turns, point);
      if (seen.insert({term.element, term.turn}).second) at_flips->push_back(std::move(term));
    }
  }
  return true;
}

/// Elements next to positions that are named, along each dimension, and to those at which conditions of the text come
/// out otherwise, in turns in which something is added.
void ContentsWalk::add_named_elements(Region& region, const Written& block, const Guess& guess,
                                      const std::vector<Term>& terms, std::vector<Term>& out) {
  PseudoRandom random(block.begin + 4, block.count());
  std::vector<std::vector<int64_t>> turns;
  for (const Term& term : terms)
    if (term.value != 0) turns.push_back(term.turn);
  if (turns.empty()) return;
  std::vector<Named> elements = named_elements(region, block, guess, random);
  for (int64_t element : decided_elements(region, block, guess, random,
                                          [&](int64_t element) { region.term(block, element, turns.front(), false); }))
    elements.push_back({element, std::nullopt});
  for (const auto& [element, place] : elements) {
    Sample sample = Sample::number(4001 + uint64_t(out.size() % 4));
    sample.place = place;
    sample.together = place.has_value();
    out.push_back({sample, element, turns[size_t(random.below(int64_t(turns.size())))], 0});
  }
}

/// Where few of the terms disagree, their elements are looked at with all turns, whatever the block is held against
/// then.
void ContentsWalk::dispute(const Guess& guess, const Order& order, const std::vector<int64_t>& turns,
                           const std::vector<Term>& terms) {
  std::vector<const Term*> disagree;
  for (const Term& term : terms)
    if (!std::isnan(term.value) && !sums_agree(guess, order, turns, {term})) disagree.push_back(&term);
  if (disagree.size() * 4 > terms.size()) return;
  for (const Term* term : disagree)
    if (disputed_.size() < most_disputed_of_turns) disputed_.push_back({term->sample, term->element, 0});
}

/// Throws NotHeld, TooLong.
bool ContentsWalk::agrees_in_all_turns(Region& region, const Written& block, const Guess& guess, const Order& order,
                                       const std::vector<int64_t>& turns, const std::vector<Term>& terms) {
  std::vector<Term> more;
  if (!only_reads_differ(guess, order, turns, terms, &more)) return false;
  add_named_elements(region, block, guess, terms, more);
  for (Term& term : more) {
    meaning_.choose(term.sample);
    const std::optional<double> value = region.term(block, term.element, term.turn, false);
    if (!value) return false;
    term.value = *value;
  }
  if (sums_agree(guess, order, turns, more)) return true;
  dispute(guess, order, turns, more);
  return false;
}

}  // namespace hetsynth::source
