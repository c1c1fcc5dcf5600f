// Which value of the program a block holds whose elements are sums over many turns of loops that are alike, as
// gradients of weights over a batch: a few turns alone are held against points of the program's sums. Both go through
// the same number of points, each once; their terms are the same functions of where they are, which enters addresses
// only, so that they agree everywhere if they do at the corners, one step along each loop and at random.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "verify/source/meaning/pseudo_random.h"
#include "verify/source/step/arena_contents.h"

namespace hetsynth::source {
namespace {

/// Fewer turns are executed in full. With 48, rank 1 of 3 of VGG19 at its published size takes 30 s of a core, not 10
/// (bench_source_check --published VGG19).
constexpr int64_t least_turns = 8;
constexpr size_t most_loops = 4, most_factors = 6;
static_assert(most_factors <= Linear::most);
constexpr int random_turns = 8;
constexpr size_t edge_terms = 8;
/// Elements whose turns are looked at next to bounds, and how often something must be added there.
constexpr size_t most_elements_at_bounds = 24, least_at_bounds = 8;

int64_t product(const std::vector<int64_t>& extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t(1), std::multiplies<>());
}

}  // namespace

std::vector<std::vector<int64_t>> turns_to_look_at(const std::vector<int64_t>& extents,
                                                   const std::vector<std::set<int64_t>>& marks, PseudoRandom random) {
  std::set<std::vector<int64_t>> seen;
  std::vector<std::vector<int64_t>> out;
  auto add = [&](const std::vector<int64_t>& turn) {
    if (seen.insert(turn).second) out.push_back(turn);
  };
  for (size_t corner = size_t(1) << extents.size(); corner-- > 0;) {
    std::vector<int64_t> turn;
    for (size_t l = 0; l < extents.size(); ++l) turn.push_back((corner >> l) & 1 ? extents[l] - 1 : 0);
    add(turn);
  }
  for (size_t l = 0; l < extents.size(); ++l) {
    std::vector<int64_t> turn(extents.size(), 0);
    turn[l] = 1;
    add(turn);
  }
  for (size_t l = 0; l < marks.size(); ++l)
    for (int64_t mark : marks[l]) {
      std::vector<int64_t> turn(extents.size(), 0);
      turn[l] = mark;
      add(turn);
    }
  for (int i = 0; i < random_turns; ++i) {
    std::vector<int64_t> turn;
    for (int64_t extent : extents) turn.push_back(random.below(extent));
    add(turn);
  }
  return out;
}

std::vector<ContentsWalk::Term> ContentsWalk::sample_turns(Region& region, const Written& block,
                                                           const std::vector<int64_t>& turns) {
  std::vector<Term> out;
  const int64_t count = block.count();
  PseudoRandom random(block.begin, count);
  const auto somewhere = [&] { return random.below(count); };
  std::vector<int64_t> elements{somewhere(), count - 1, somewhere(), 0, somewhere()};
  elements.insert(elements.end(), block.corners.begin(), block.corners.end());
  meaning_.limit = 0;
  // Without any turn it is nothing: what it is, is its terms alone.
  for (int64_t element : {int64_t(0), count - 1}) {
    meaning_.choose(Sample::number(1));
    if (region.term(block, element, {}, true) != std::optional<double>(0.0)) return {};
  }
  const std::vector<std::vector<int64_t>> looked_at = turns_to_look_at(turns, region.marks(block), random);
  const size_t plain = std::max(looked_at.size(), elements.size());
  for (size_t i = 0; i < plain + edge_terms; ++i) {
    Term term;
    // A few choices of the unknowns, each for several terms: what they have in common is computed once.
    term.sample = Sample::number(i < plain ? 1 + i * 4 / plain : 2001 + i % 2);
    term.sample.edge = i >= plain;
    term.element = std::clamp<int64_t>(elements[i % elements.size()], 0, count - 1);
    term.turn = looked_at[i % looked_at.size()];
    meaning_.choose(term.sample);
    const std::optional<double> value = region.term(block, term.element, term.turn, false);
    if (!value) return {};
    term.value = *value;
    out.push_back(std::move(term));
  }
  if (region.bounded(block) && !add_turns_at_bounds(region, block, elements, out)) return {};
  return out;
}

/// Turns next to bounds that decide whether anything is added to an element at all, as where a window leaves an image:
/// the program's bounds are half-lines of each counter as well, so that they are met there or at the ends. False: these
/// are not known, or next to nothing is ever added.
bool ContentsWalk::add_turns_at_bounds(Region& region, const Written& block, const std::vector<int64_t>& elements,
                                       std::vector<Term>& terms) {
  size_t something = 0;
  const size_t looked_at = std::min(elements.size(), most_elements_at_bounds);
  for (size_t i = 0; i < looked_at; ++i) {
    const int64_t element = std::clamp<int64_t>(elements[i], 0, block.count() - 1);
    const std::vector<std::vector<int64_t>> turns = region.turns_at_bounds(block, element);
    if (turns.empty()) return false;
    for (const std::vector<int64_t>& turn : turns) {
      Term term{Sample::number(3001 + i % 4), element, turn, 0};
      meaning_.choose(term.sample);
      const std::optional<double> value = region.term(block, element, turn, false);
      if (!value) return false;
      term.value = *value;
      something += term.value != 0;
      terms.push_back(std::move(term));
    }
  }
  return something >= std::min(least_at_bounds, looked_at);
}

/// What the program adds to the element in the turn that a term is of, with memory as it was chosen last.
double ContentsWalk::term_by_program(const Guess& guess, const Order& order, const std::vector<int64_t>& turns,
                                     const Term& term, Meaning::Watch* watch) {
  const std::vector<Range> factors = meaning_.summed_over(guess.value);
  int64_t number = 0;
  for (size_t l = 0; l < turns.size(); ++l) number = number * turns[l] + term.turn[l];
  std::vector<int64_t> point(factors.size(), -1);
  for (size_t i = order.size(); i-- > 0;) {
    const Range& range = factors[order[i]];
    point[order[i]] = range.lo + number % (range.hi - range.lo);
    number /= range.hi - range.lo;
  }
  const Index index = index_at(meaning_.ranges(guess.value), guess.strides, term.element);
  meaning_.work = 0;
  meaning_.limit = most_work_;
  return meaning_.term(guess.value, index, point, watch);
}

bool ContentsWalk::sums_agree(const Guess& guess, const Order& order, const std::vector<int64_t>& turns,
                              const std::vector<Term>& terms) {
  size_t compared = 0;
  for (const Term& term : terms) {
    double expected = 0;
    try {
      meaning_.choose(term.sample);
      expected = term_by_program(guess, order, turns, term);
    } catch (const NotHeld&) {
      return false;
    } catch (const TooLong&) {
      return false;
    }
    if (std::isnan(expected) && std::isnan(term.value)) continue;
    if (!close(expected, term.value) && !close_at_edge(expected, term.value, term.sample)) return false;
    ++compared;
  }
  return 2 * compared >= terms.size();
}

/// The factors, in their order of turns, whose points are as many as the turns.
std::optional<ContentsWalk::Order> ContentsWalk::order_of_sum(Region& region, const Written& block, const Guess& guess,
                                                              const std::vector<int64_t>& turns,
                                                              const std::vector<Term>& terms) {
  const std::vector<Range> factors = meaning_.summed_over(guess.value);
  if (factors.empty() || factors.size() > most_factors) return std::nullopt;
  const int64_t wanted = product(turns);
  const auto suits = [&](const Order& found) {
    if (!sums_agree(guess, found, turns, {terms.front()}) && !sums_agree(guess, found, turns, {terms.back()}))
      return false;
    if (sums_agree(guess, found, turns, terms)) return true;
    dispute(guess, found, turns, terms);
    return false;
  };
  const auto confirmed = [&](const Order& found) {
    if (block.scattered) return only_reads_differ(guess, found, turns, terms);
    try {
      return agrees_in_all_turns(region, block, guess, found, turns, terms);
    } catch (const NotHeld&) {
      return false;
    } catch (const TooLong&) {
      return false;
    }
  };
  std::optional<Order> out;
  Order order;
  auto extend = [&](auto&& self, int64_t points) -> void {
    if (out || points > wanted) return;
    if (points == wanted && suits(order) && confirmed(order)) {
      out = order;
      return;
    }
    for (size_t f = 0; f < factors.size(); ++f) {
      if (std::count(order.begin(), order.end(), f) || factors[f].hi <= factors[f].lo) continue;
      order.push_back(f);
      self(self, points * (factors[f].hi - factors[f].lo));
      order.pop_back();
    }
  };
  extend(extend, 1);
  return out;
}

std::optional<ContentsWalk::Guess> ContentsWalk::recognise_sum(Region& region, const Written& block,
                                                               const std::string& name) {
  const std::vector<int64_t> turns = region.turns(block);
  if (turns.empty() || turns.size() > most_loops || product(turns) < least_turns) return std::nullopt;
  const int64_t before = region.work;
  bounded_turns_ = region.bounded(block);
  const std::vector<ValueId> values = candidates(block, name);
  std::vector<Term> terms;
  try {
    terms = block.scattered ? sample_looked_up(region, block, turns, values) : sample_turns(region, block, turns);
  } catch (const NotHeld&) {  // left to what executes all turns
  } catch (const NotFollowed&) {
  } catch (const TooLong&) {
  }
  if (terms.empty()) return std::nullopt;
  most_work_ = work_ratio * ((region.work - before) / int64_t(terms.size())) + least_work;
  for (bool permuted : {false, true})
    for (ValueId v : values) {
      if (meaning_.summed_over(v).empty()) continue;
      const std::vector<Range>& ranges = meaning_.ranges(v);
      std::vector<int> dims = row_major(ranges.size());
      if (permuted && ranges.size() > 5) continue;
      do {
        if (permuted == std::is_sorted(dims.begin(), dims.end())) continue;
        const Guess guess{v, dense_strides(ranges, dims)};
        const std::optional<Order> order = order_of_sum(region, block, guess, turns, terms);
        if (!order || (block.scattered && !places_agree(region, block, guess, *order, turns))) continue;
        for (ValueId other : values) {  // the same tensor may be computed again: what reads either reads this
          const bool alike = other != v && program_.values[size_t(other)].node == program_.values[size_t(v)].node &&
                             meaning_.ranges(other) == ranges && !meaning_.holds(other) &&
                             meaning_.summed_over(other) == meaning_.summed_over(v);
          if (alike && sums_agree({other, guess.strides}, *order, turns, terms)) meaning_.identify(other, v);
        }
        memory_.understand_reads();
        passed_[{region.function_name(), block.pointer}] = passed_as(guess);
        return guess;
      } while (permuted && std::next_permutation(dims.begin(), dims.end()));
    }
  return std::nullopt;
}

}  // namespace hetsynth::source
