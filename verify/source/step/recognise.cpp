// Which value of the program a written block holds.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "verify/source/step/arena_contents.h"

namespace hetsynth::source {
namespace {

/// Small differences of constants may be all of a value this close to 0, as 1 + cos(pi) of a schedule that has ended,
/// or 1 - 0.99999999 of an optimizer. Values of unknowns seldom are.
constexpr double next_to_nothing = 1e-4;

/// Elements at which roundings are looked at where text and program seem to differ in them.
constexpr size_t most_looks_at_roundings = 24;

/// What lies in scratch memory is seldom a value of the program, and then one that something was moved of.
constexpr int64_t most_work_of_scratch = 20'000;

}  // namespace

/// `limit`: evaluations that an element may take.
/// `some`: of the elements one at least must be a number on both sides.
bool ContentsWalk::agrees(const Guess& guess, const std::vector<Point>& points, int64_t limit, std::string* why,
                          bool some) {
  // Over nothing a maximum is -infinity, whatever is in memory: that is as good as a number.
  const bool constant = meaning_.is_constant(guess.value);
  int compared = 0;
  for (const Point& point : points) {
    meaning_.choose(point.sample);
    Index index = index_at(meaning_.ranges(guess.value), guess.strides, point.element);
    double expected = 0;
    meaning_.work = 0;
    meaning_.limit = limit;
    try {
      expected = meaning_.at(guess.value, index);
    } catch (const NotHeld& e) {
      if (why) *why = e.what();
      return false;
    } catch (const TooLong& e) {
      if (why) *why = e.what();
      too_long_ = true;
      return false;
    }
    double slack = 0;
    const bool is_tiny = std::max(std::abs(expected), std::abs(point.value)) < next_to_nothing;
    const bool is_near = std::abs(expected - point.value) < 1e-2 * std::abs(expected);
    if (!close(expected, point.value) && (is_tiny || (is_near && !point.sample.edge))) {
      meaning_.choose(point.sample, /*float_constants=*/false);
      meaning_.limit = 0;
      slack = 16 * std::abs(meaning_.at(guess.value, index) - expected);
    }
    // Roots and logarithms of negative unknowns say nothing; what is undefined on one side only does.
    if (std::isnan(expected) && std::isnan(point.value)) {
      compared += constant;
      continue;
    }
    if (!close(expected, point.value) && !close_at_edge(expected, point.value, point.sample) &&
        !(std::abs(expected - point.value) <= slack)) {
      if (why)
        *why = fmt::format("element [{}] is {:.6g} by the text and {:.6g} by the program", fmt::join(index, ","),
                           point.value, expected);
      return false;
    }
    compared += constant || std::isfinite(expected);
  }
  if (compared < 1 && why) *why = "no element could be compared";
  return compared > 0 || !some;
}

ContentsWalk::Guess ContentsWalk::recognise(Region& region, const Written& block, const std::string& name,
                                            bool scratch) {
  const std::pair key{region.function_name(), block.pointer};
  size_t enough = passed_.count(key) ? 1 : 3;
  usual_ = found_as_[key];
  memory_.forget_reads();
  disputed_.clear();
  if (auto sum = recognise_sum(region, block, name)) return *sum;
  memory_.forget_reads();
  std::vector<ValueId> values = candidates(block, name);
  if (block.scattered) places_ = places_of(region, values);
  std::vector<Point> points = sample(region, block, enough);
  put_what_is_read_first(block, name, values);
  if (scratch) most_work_ = std::min(most_work_, most_work_of_scratch);
  const std::set<ValueId> beside = memory_.left_beside();
  std::optional<Guess> guess;
  // Zeros that are to be sent are no value's in particular.
  if (scratch && stays_alike(region, block, points))
    throw Differs(fmt::format("{} elements that are alike", block.count()), block.line);
  if (!beside.empty()) guess = match_opened(beside, region, block, values, enough);
  // Before another value that happens to be the same is taken for it.
  const std::vector<ValueId> called_so = named(values, name);
  if (!guess) guess = match_again(region, block, called_so, enough);
  if (!guess && weighs(called_so)) {  // the others, in all orders of their dimensions, take ten times as long
    guess = settle(region, block, called_so, points);
    if (!guess) dispute(block, called_so, points);
    if (!guess) guess = match_unrounded(region, block, called_so, enough);
  }
  if (!guess) guess = settle(region, block, values, points);
  if (!guess) dispute(block, values, points);
  if (!guess) guess = match_again(region, block, values, enough);
  if (!guess) guess = match_unread(region, block, values, enough);
  if (!guess) guess = match_unrounded(region, block, values, enough);
  if (!guess && !scratch) guess = match_opened(region, block, values, enough);
  if (!guess) {
    int64_t work = 0;
    for (const Point& point : disputed_) points.push_back(point_at(region, block, point.element, point.sample, work));
    no_match(block, points, values, name, scratch);
  }
  memory_.understand_reads();
  if (tell_apart(points)) passed_[key] = passed_as(*guess);
  found_as_[key] = names_in_loop_[size_t(guess->value)];
  return *guess;
}

/// The first value that has these elements, in the simplest order of dimensions. A right guess follows from memory in
/// few evaluations, many wrong ones in very many: these are put off until nothing else is left.
std::optional<ContentsWalk::Guess> ContentsWalk::match(const std::vector<ValueId>& values,
                                                       const std::vector<Point>& points) {
  bool any_too_long = false;
  for (bool permuted : {false, true}) {
    std::vector<Guess> open;
    for (ValueId v : values) {
      const std::vector<Range>& ranges = meaning_.ranges(v);
      std::vector<int> order = row_major(ranges.size());
      if (permuted && ranges.size() > 5) continue;
      do {
        if (permuted != std::is_sorted(order.begin(), order.end())) open.push_back({v, dense_strides(ranges, order)});
      } while (permuted && std::next_permutation(order.begin(), order.end()));
    }
    for (int64_t limit = std::min(most_work_, least_work); !open.empty(); limit = std::min(most_work_, 32 * limit)) {
      std::vector<Guess> longer;
      for (const Guess& guess : open) {
        too_long_ = false;
        if (agrees(guess, points, limit, nullptr)) return guess;
        if (too_long_) longer.push_back(guess);
      }
      open = std::move(longer);
      if (limit == most_work_) break;
    }
    any_too_long = any_too_long || !open.empty();
  }
  too_long_ = any_too_long;
  return std::nullopt;
}

/// A match that also holds one step along each of its dimensions, where other orders of the same elements differ.
std::optional<ContentsWalk::Guess> ContentsWalk::settle(Region& region, const Written& block,
                                                        const std::vector<ValueId>& values, std::vector<Point> points) {
  std::optional<Guess> before;
  for (;;) {
    const std::optional<Guess> guess = match(values, points);
    if (!guess && before && block.count() > 2) dispute(*before, points);
    if (!guess) return std::nullopt;
    before = guess;
    const auto found = passed_.find({region.function_name(), block.pointer});
    const bool passed = found != passed_.end() && found->second == passed_as(*guess);
    const std::vector<Point> steps = sample_steps(region, block, *guess, points, passed);
    if (steps.empty() || agrees(*guess, steps, most_work_, nullptr)) {
      std::optional<Point> other = disputed_element(region, block, *guess);
      if (!other) other = named_element(region, block, *guess, passed);
      if (!other) other = decided_element(region, block, *guess, passed);
      if (!other) other = other_element(region, block, *guess, alike(points, steps), passed);
      if (!other && !passed) other = element_of_rival(region, block, *guess, points, steps);
      if (other) {
        dispute(*other);
        points.push_back(*other);
        continue;
      }
      const bool rounds = exact_ && weighed_.at(program_.values[size_t(guess->value)].node);
      if (rounds && !round_alike(region, block, *guess, points)) return std::nullopt;
      identify_same(*guess, values, points);
      return guess;
    }
    points.insert(points.end(), steps.begin(), steps.end());
  }
}

/// Elements at which the block is not what was guessed, though it is at most of those that were looked at, are looked
/// at whatever it is held against next.
void ContentsWalk::dispute(const Guess& guess, const std::vector<Point>& points) {
  std::vector<Point> differ;
  const bool too_long_before = too_long_;
  too_long_ = false;
  for (size_t n = 0; n < points.size() && !too_long_ && differ.size() * 2 <= points.size(); ++n)
    if (!agrees(guess, {points[n]}, least_work, nullptr, /*some=*/false)) differ.push_back(points[n]);
  const bool is_it = !too_long_ && differ.size() * 2 <= points.size();
  too_long_ = too_long_before;
  if (!is_it) return;
  for (const Point& point : differ) dispute(point);
}

/// The same of each of these values, in the usual order of its dimensions.
void ContentsWalk::dispute(const Written& block, const std::vector<ValueId>& values, const std::vector<Point>& points) {
  if (block.count() <= 2) return;  // of one element, points are choices of what is in memory
  for (const ValueId value : values) {
    const std::vector<Range>& ranges = meaning_.ranges(value);
    dispute({value, dense_strides(ranges, row_major(ranges.size()))}, points);
  }
}

void ContentsWalk::dispute(const Point& point) {
  const auto same = [&](const Point& other) { return other.element == point.element && other.sample == point.sample; };
  if (disputed_.size() < most_disputed && std::ranges::none_of(disputed_, same)) disputed_.push_back(point);
}

/// The same tensor may be computed again: what reads either value reads this.
void ContentsWalk::identify_same(const Guess& guess, const std::vector<ValueId>& values,
                                 const std::vector<Point>& points) {
  for (ValueId other : values) {
    const bool alike = other != guess.value &&
                       program_.values[size_t(other)].node == program_.values[size_t(guess.value)].node &&
                       meaning_.ranges(other) == meaning_.ranges(guess.value) && !meaning_.holds(other);
    if (alike && agrees({other, guess.strides}, points, most_work_, nullptr)) meaning_.identify(other, guess.value);
  }
}

/// What is computed again while the first one is still in memory: the text makes it of what that was made of.
std::optional<ContentsWalk::Guess> ContentsWalk::match_again(Region& region, const Written& block,
                                                             const std::vector<ValueId>& values, size_t enough) {
  for (ValueId value : values)
    if (const ValueId first = meaning_.first_in_memory(value); first >= 0)
      if (auto guess = match_opened({first}, region, block, {value}, enough)) return guess;
  return std::nullopt;
}

/// What is computed of something that the text does not read but computes again, as the largest element of what it
/// reads, while the first one is still in memory.
std::optional<ContentsWalk::Guess> ContentsWalk::match_unread(Region& region, const Written& block,
                                                              const std::vector<ValueId>& values, size_t enough) {
  const std::set<ValueId> reads = memory_.reads();
  for (ValueId value : values) {
    std::set<ValueId> unread;
    if (const int maker = meaning_.maker(value); maker >= 0)
      for (ValueId operand : program_.instructions[size_t(maker)].operands)
        if (const ValueId first = meaning_.first_in_memory(operand); first >= 0 && !reads.count(first))
          unread.insert(first);
    if (unread.empty()) continue;
    if (auto guess = match_opened(unread, region, block, {value}, enough)) return guess;
  }
  return std::nullopt;
}

/// Two computations may agree by what values in memory are and not for any contents of their places: the gradient of
/// attention takes sum(weights * their gradient) as sum(result * its gradient). The text reads the result, a sum that
/// the program's side does not mention, and the program's side the weights' gradient, a sum that may be in memory, too.
/// Both are what they were computed from: of what the text reads, one sum at a time, and all that a candidate is made
/// of. Nothing wrong passes by it: what is in memory was found to be that computation.
std::optional<ContentsWalk::Guess> ContentsWalk::match_opened(Region& region, const Written& block,
                                                              const std::vector<ValueId>& values, size_t enough) {
  std::set<ValueId> reads;
  for (ValueId value : memory_.reads()) reads.insert(meaning_.source(value));
  for (ValueId value : reads)
    if (is_sum(value))
      if (auto guess = match_opened({value}, region, block, values, enough)) return guess;
  for (ValueId value : reads) {
    if (!is_sum(value)) continue;
    for (ValueId candidate : values) {
      std::set<ValueId> opened = sums_behind(candidate);
      opened.erase(value);
      if (opened.empty()) continue;
      opened.insert(value);
      if (auto guess = match_opened(opened, region, block, {candidate}, enough)) return guess;
    }
  }
  return std::nullopt;
}

/// Whether one of them is what attention makes of its weights.
bool ContentsWalk::weighs(const std::vector<ValueId>& values) const {
  return std::ranges::any_of(values, [&](ValueId v) { return weighed_.contains(program_.values[size_t(v)].node); });
}

/// Blocks of attention between operands of 16 bits round the weights before they are divided by their sum, the program
/// behind it; and sum(weights * their gradient) is taken as sum(result * its gradient), of a result whose weights were
/// rounded. No rounding is the same then, so that such sums are held against the program over the reals, as a proof is.
/// Of the result either side must round.
std::optional<ContentsWalk::Guess> ContentsWalk::match_unrounded(Region& region, const Written& block,
                                                                 const std::vector<ValueId>& values, size_t enough) {
  std::vector<ValueId> sums;
  for (ValueId value : values)
    if (weighed_.count(program_.values[size_t(value)].node)) sums.push_back(value);
  if (sums.empty() || exact_) return std::nullopt;
  exact_ = true;
  memory_.forget_reads();
  std::optional<Guess> guess;
  try {
    guess = settle(region, block, sums, sample(region, block, enough));
    if (!guess) guess = match_opened(region, block, sums, enough);
  } catch (...) {
    exact_ = false;
    throw;
  }
  exact_ = false;
  return guess;
}

/// Whether roundings to 16 bits make a difference to both or to neither. At an element for which few keys are weighed
/// they may happen to make none to one of them: others are looked at until both show it.
bool ContentsWalk::round_alike(Region& region, const Written& block, const Guess& guess, std::vector<Point> points) {
  PseudoRandom random(block.begin + 4, block.count());
  bool by_text = false, by_program = false;
  int64_t work = 0;
  for (size_t n = 0; n < points.size(); ++n) {
    const Point point = points[n];
    const Index index = index_at(meaning_.ranges(guess.value), guess.strides, point.element);
    meaning_.work = meaning_.limit = 0;
    meaning_.choose(point.sample);
    const double expected = meaning_.at(guess.value, index);
    Sample rounding = point.sample;
    rounding.exact = false;
    meaning_.choose(rounding);
    if (!std::isfinite(expected) || !std::isfinite(point.value)) continue;
    by_program = by_program || !close(meaning_.at(guess.value, index), expected);
    by_text = by_text || !close(region.values(block, {point.element}).front(), point.value);
    if (n + 1 == points.size() && by_text != by_program && n < most_looks_at_roundings)
      points.push_back(point_at(region, block, random.below(block.count()), as_now(Sample::number(8000 + n)), work));
  }
  return by_text == by_program;
}

/// The operator is a part of it: one element of relu's may be one of its operand's, which is in memory as well where it
/// is computed again.
ContentsWalk::Passed ContentsWalk::passed_as(const Guess& guess) const {
  const Node& node = node_of(guess.value);
  Passed out{node.op ? fmt::format("{} {}", node.op->tag(), node.op->attributes()) : "", {}, guess.strides};
  for (const Range& range : meaning_.ranges(guess.value)) out.extents.push_back(range.hi - range.lo);
  return out;
}

bool ContentsWalk::is_sum(ValueId value) const {
  const int maker = meaning_.maker(value);
  return maker >= 0 && program_.instructions[size_t(maker)].opcode == Opcode::compute &&
         node_of(value).space.reduction() == FactorKind::sum;
}

/// Sums in memory that the value is computed from directly.
std::set<ValueId> ContentsWalk::sums_behind(ValueId value) const {
  std::set<ValueId> out;
  if (const int maker = meaning_.maker(value); maker >= 0)
    for (ValueId operand : program_.instructions[size_t(maker)].operands)
      if (const ValueId of = meaning_.source(operand); meaning_.opaque(of) && is_sum(of)) out.insert(of);
  return out;
}

/// With these values as what they are computed from.
std::optional<ContentsWalk::Guess> ContentsWalk::match_opened(const std::set<ValueId>& opened, Region& region,
                                                              const Written& block, const std::vector<ValueId>& values,
                                                              size_t enough) {
  std::optional<Guess> guess;
  meaning_.open(opened);
  opened_ = true;
  try {
    guess = settle(region, block, values, sample(region, block, enough));
  } catch (const NotHeld&) {  // what they were computed from is gone
  } catch (const TooLong&) {
  }
  opened_ = false;
  meaning_.close();
  if (guess) opened_for_match_.insert(opened.begin(), opened.end());
  return guess;
}

void ContentsWalk::no_match(const Written& block, const std::vector<Point>& points,
                            const std::vector<ValueId>& candidates, const std::string& name, bool scratch) {
  std::string place = fmt::format("what is written to bytes {} to {} through {}", block.begin, block.end, name);
  // The new contents of a parameter come before what it was, which is called alike; it tells more where new contents
  // take too long.
  const auto is_new = [&](ValueId v) {
    return std::ranges::any_of(program_.finals,
                               [&](const auto& final) { return final.second == v && replaces_named(final, name); });
  };
  bool too_long = too_long_;
  for (ValueId v : candidates) {
    const bool updates = is_new(v);
    if (!updates && !named_alike(v, name)) continue;
    std::string why;
    const std::vector<Range>& ranges = meaning_.ranges(v);
    const Guess guess{v, dense_strides(ranges, row_major(ranges.size()))};
    bool differs = false;
    for (size_t n = 0; n < points.size() && !differs; ++n) {  // one that does is enough, however much others take
      too_long_ = false;
      differs = !agrees(guess, {points[n]}, most_work_, &why, /*some=*/false) && !too_long_;
    }
    if (!differs) {
      too_long_ = false;
      const bool numbers = agrees(guess, points, most_work_, &why);
      // Infinite or undefined wherever it was looked at, by both: nothing is shown, and nothing is refuted.
      if (!numbers && !too_long_ && !scratch)
        throw NotFollowed(fmt::format("{} cannot be told from {}: {}", place, part_text(v), why), block.line);
    }
    if (too_long_ && !scratch) {
      if (!updates) throw TooLong();
      too_long = true;
      continue;
    }
    throw Differs(fmt::format("{} is not {}, nor anything else the program computes: {}", place, part_text(v), why),
                  block.line, program_.values[size_t(v)].node);
  }
  if (too_long && !scratch) throw TooLong();
  throw Differs(fmt::format("{} is nothing the program computes{}", place,
                            candidates.empty() ? ": no value has so many elements" : ""),
                block.line);
}

}  // namespace hetsynth::source
