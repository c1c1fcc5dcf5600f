// Which value of the program a written block holds.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "verify/source/contents.h"
#include "verify/source/pseudo_random.h"

namespace hetsynth::source {
namespace {

/// Values on either side of where the program was when a block was recognised last that could be what this one holds.
constexpr size_t most_candidates = 96;
constexpr size_t random_elements = 3;
/// Of elements of a block. Fewer, as those of constants and masks, lie alike in many orders.
constexpr size_t different_values = 3;
constexpr size_t most_hits = 48;
/// Evaluations after which a block gets no further elements once it has enough: three, or one where the same kernel
/// passed before; and after which two are enough.
constexpr int64_t dear = 150'000, very_dear = 10'000'000;
/// Evaluations that go into telling a guess's order of elements from others.
constexpr int64_t most_work_of_steps = 2'000'000;
/// Elements that are looked at where comparisons come out either way, and evaluations after which two are enough.
/// Where equality is asked for, or all elements are alike so far, what tells is rare.
constexpr uint64_t edges = 8, edges_of_order = 16, edges_where_rare = 128, least_edges = 2;
constexpr int64_t most_work_of_edges = 300'000, most_work_where_rare = 5'000'000;

/// The program's side of a right guess takes about as many evaluations as the text's. What takes far more follows
/// from memory only through much that was not computed yet.
constexpr int64_t work_ratio = 20, least_work = 10'000;
/// What lies in scratch memory is seldom a value of the program, and then one that something was moved of.
constexpr int64_t most_work_of_scratch = 20'000;

std::string identifier(const std::string& name) {
  std::string out;
  for (char c : name) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  while (!out.empty() && out.back() == '_') out.pop_back();
  return out;
}

}  // namespace

/// Constants of kernels are printed as floats, and constant folding may round once more: relative errors of 1e-7.
bool close(double a, double b) {
  if (a == b) return true;
  if (!std::isfinite(a) || !std::isfinite(b)) return false;
  return std::abs(a - b) <= 4e-6 * std::max(std::abs(a), std::abs(b)) + 1e-30;
}

bool close_at_edge(double a, double b, const Sample& sample) {
  if (!sample.edge) return false;
  if (std::isinf(a) || std::isinf(b)) return true;
  return std::abs(a - b) <= 2e-3 * std::max(std::abs(a), std::abs(b));
}

std::vector<ContentsWalk::Point> ContentsWalk::sample(Region& region, const Written& block, size_t enough) {
  int64_t count = block.count();
  // One somewhere, then the last with unknowns that grow and with such that do not: where code goes through pieces and
  // rescales what it has so far, it depends on all of them.
  PseudoRandom random(block.begin, count);
  const auto somewhere = [&] { return random.below(count); };
  std::vector<int64_t> elements{somewhere(), count - 1, count - 1};
  // A kernel that passed before only has other operands now.
  if (enough > 1) elements.insert(elements.end(), block.ends.begin(), block.ends.end());
  const size_t ends = elements.size() - 3;
  enough += ends;
  while (elements.size() < 3 + ends + random_elements) elements.push_back(somewhere());
  elements.insert(elements.end(), block.corners.begin(), block.corners.end());
  std::vector<Point> points;
  std::set<int64_t> seen;
  uint64_t number = 0;
  int64_t spent = 0, most = 0;
  meaning_.work = 0;
  meaning_.limit = options_.work_per_kernel;
  for (int64_t element : elements) {
    bool again = !seen.insert(element).second;
    if (element < 0 || element >= count || (again && number > 2 && count > 2)) continue;
    bool passed = enough == 1 && points.size() >= 2;
    if (points.size() >= enough && (spent > dear || passed)) break;
    if (points.size() >= 2 + (ends > 0 ? ends + 1 : 0) && spent > very_dear) break;
    Point point;
    point.sample = Sample::number(++number);
    point.sample.exact = exact_;
    point.element = element;
    meaning_.choose(point.sample);
    int64_t before = region.work + meaning_.work + work_of_others_;
    point.value = region.values(block, {element}).front();
    int64_t work = region.work + meaning_.work + work_of_others_ - before;
    spent += work;
    most = std::max(most, work);
    points.push_back(point);
  }
  if (block.scattered && !(enough == 1 && spent > dear)) {
    int64_t before = region.work + meaning_.work + work_of_others_;
    sample_hits(region, block, number, points);
    most = std::max(most, region.work + meaning_.work + work_of_others_ - before);
  }
  most_work_ = work_ratio * most + least_work;
  if (count <= 2 && spent < dear) {  // single values: several choices of the unknowns instead of several elements
    for (size_t i = 0; i < random_elements; ++i) {
      Point point;
      point.sample = Sample::number(++number);
      point.sample.exact = exact_;
      meaning_.choose(point.sample);
      point.value = region.values(block, {0}).front();
      points.push_back(point);
    }
  }
  return points;
}

/// Most elements of a scattered block stay as they were filled: those that are added to tell more. Those the text does
/// not add to tell nothing of what it leaves out; so once everything is added to the same place.
void ContentsWalk::sample_hits(Region& region, const Written& block, uint64_t& number, std::vector<Point>& points) {
  for (int choice = 0; choice < 4; ++choice) {
    Sample sample{++number, choice % 2 == 0, false, choice == 3, exact_};
    meaning_.choose(sample);
    for (auto [element, value] : region.hits(block, most_hits)) points.push_back({sample, element, value});
  }
}

/// A node of a loop's turn counts by the name it has in the loop: "h" for "h[3]".
bool ContentsWalk::named_alike(ValueId value, const std::string& name) const {
  const std::string& own = node_of(value).name;
  const std::string word = identifier(own.back() == ']' ? own.substr(0, own.rfind('[')) : own);
  return word == name || word + "_tensor" == name;
}

/// Names only order the search.
std::vector<ValueId> ContentsWalk::candidates(const Written& block, const std::string& name) const {
  int64_t count = block.count();
  auto fits = [&](ValueId v) { return meaning_.count(v) == count && meaning_.dtype(v) == block.dtype; };
  std::vector<ValueId> out, ahead, passed, before, copies;
  for (auto [target, value] : program_.finals)
    if (fits(value) && identifier(reference_[target].name) == name) out.push_back(value);
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    ValueId v = program_.instructions[i].result;
    if (!fits(v)) continue;
    if (!done_[i] && named_alike(v, name))
      out.push_back(v);
    else if (!done_[i] && meaning_.is_kept_copy(v))
      copies.push_back(v);
    else if (!done_[i])
      (int(i) >= frontier_ ? ahead : passed).push_back(v);
    else
      before.push_back(v);
  }
  for (ValueId leaf : program_.leaves)
    if (fits(leaf)) before.push_back(leaf);
  if (ahead.size() > most_candidates) ahead.resize(most_candidates);
  // Nearest first: of what lies far behind, most exists in kernels only, and never in memory.
  std::reverse(passed.begin(), passed.end());
  if (passed.size() > most_candidates) passed.resize(most_candidates);
  out.insert(out.end(), ahead.begin(), ahead.end());
  out.insert(out.end(), passed.begin(), passed.end());
  if (before.size() > most_candidates) before.erase(before.begin(), before.end() - long(most_candidates));
  out.insert(out.end(), before.begin(), before.end());
  // What is only moved is what was read, however long ago that was made.
  for (ValueId value : memory_.reads())
    if (fits(value) && !std::count(out.begin(), out.end(), value)) out.push_back(value);
  if (copies.size() > most_candidates) copies.resize(most_candidates);
  out.insert(out.end(), copies.begin(), copies.end());
  return out;
}

/// `limit`: evaluations that an element may take.
bool ContentsWalk::agrees(const Guess& guess, const std::vector<Point>& points, int64_t limit, std::string* why) {
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
    if (!point.sample.edge && !close(expected, point.value) &&
        std::abs(expected - point.value) < 1e-2 * std::abs(expected)) {
      meaning_.choose(point.sample, /*float_constants=*/false);
      meaning_.limit = 0;
      slack = 16 * std::abs(meaning_.at(guess.value, index) - expected);
    }
    // Roots and logarithms of negative unknowns say nothing; what is undefined on one side only does.
    if (std::isnan(expected) && std::isnan(point.value)) {
      compared += point.sample.edge;
      continue;
    }
    if (!close(expected, point.value) && !close_at_edge(expected, point.value, point.sample) &&
        !(std::abs(expected - point.value) <= slack)) {
      if (why)
        *why = fmt::format("element [{}] is {:.6g} by the text and {:.6g} by the program", fmt::join(index, ","),
                           point.value, expected);
      return false;
    }
    ++compared;
  }
  if (compared < 1 && why) *why = "no element could be compared";
  return compared > 0;
}

/// Whether the elements show what a kernel does with all operands, so that its next launch needs few.
bool ContentsWalk::tell_apart(const std::vector<Point>& points) {
  std::set<double> values;
  for (const Point& point : points) values.insert(point.value);
  return values.size() >= std::min(points.size(), different_values);
}

ContentsWalk::Guess ContentsWalk::recognise(Region& region, const Written& block, const std::string& name,
                                            bool scratch) {
  size_t enough = passed_.count({region.function_name(), block.pointer}) ? 1 : 3;
  memory_.forget_reads();
  if (auto sum = recognise_sum(region, block, name)) return *sum;
  memory_.forget_reads();
  std::vector<Point> points = sample(region, block, enough);
  std::vector<ValueId> values = candidates(block, name);
  if (scratch) most_work_ = std::min(most_work_, most_work_of_scratch);
  const std::set<ValueId> beside = memory_.left_beside();
  std::optional<Guess> guess;
  // Zeros that are to be sent are no value's in particular.
  if (scratch && alike(points, {})) throw Differs(fmt::format("{} elements that are alike", block.count()), block.line);
  if (!beside.empty()) guess = match_opened(beside, region, block, values, enough);
  if (!guess) guess = settle(region, block, values, points);
  if (!guess && !scratch) guess = match_opened(region, block, values, enough);
  if (!guess) guess = match_unrounded(region, block, values, enough);
  if (!guess) no_match(block, points, values, name, scratch);
  memory_.understand_reads();
  if (tell_apart(points)) passed_[{region.function_name(), block.pointer}] = layout(*guess);
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
  for (;;) {
    const std::optional<Guess> guess = match(values, points);
    if (!guess) return std::nullopt;
    const auto found = passed_.find({region.function_name(), block.pointer});
    const bool passed = found != passed_.end() && found->second == layout(*guess);
    const std::vector<Point> steps = sample_steps(region, block, *guess, points, passed);
    if (steps.empty() || agrees(*guess, steps, most_work_, nullptr)) {
      if (const std::optional<Point> other = other_element(region, block, *guess, alike(points, steps), passed)) {
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

std::vector<ContentsWalk::Point> ContentsWalk::sample_steps(Region& region, const Written& block, const Guess& guess,
                                                            const std::vector<Point>& points, bool passed) {
  std::vector<Point> out;
  if (passed) return out;
  const std::vector<Range>& ranges = meaning_.ranges(guess.value);
  std::set<int64_t> elements;
  for (size_t d = 0; d < ranges.size(); ++d) {
    const int64_t extent = ranges[d].hi - ranges[d].lo;
    if (extent <= 1) continue;
    elements.insert({guess.strides[d], (extent - 1) * guess.strides[d]});
    if (const int maker = meaning_.maker(guess.value); maker >= 0)
      for (int64_t stride : steps_inside(program_.instructions[size_t(maker)], d))
        if (stride < extent) elements.insert(stride * guess.strides[d]);
  }
  for (const Point& point : points) elements.erase(point.element);
  // Positive: roots and logarithms are numbers.
  const Sample sample{1000 + points.size(), /*positive=*/true, false, false, exact_};
  meaning_.work = 0;
  meaning_.limit = options_.work_per_kernel;
  const int64_t before = region.work + work_of_others_;
  for (int64_t element : elements) {
    if (region.work + meaning_.work + work_of_others_ - before > most_work_of_steps) break;
    meaning_.choose(sample);
    out.push_back({sample, element, region.values(block, {element}).front()});
  }
  return out;
}

/// Whether all elements are worth the same so far, though the value is no constant: zeros are not yet a gradient of max
/// pooling that happens to be zero at these.
bool ContentsWalk::alike(const std::vector<Point>& points, const std::vector<Point>& steps) {
  const double value = points.front().value;
  const auto same = [&](const Point& p) { return close(p.value, value) || (std::isnan(p.value) && std::isnan(value)); };
  return std::all_of(points.begin(), points.end(), same) && std::all_of(steps.begin(), steps.end(), same);
}

/// An element at which the text differs from a guess, among some at which comparisons come out either way: more where
/// the program compares with something what is looked at, and where all elements are alike.
std::optional<ContentsWalk::Point> ContentsWalk::other_element(Region& region, const Written& block, const Guess& guess,
                                                               bool alike, bool passed) {
  alike = alike && !meaning_.is_constant(guess.value);
  if (passed && !alike) return std::nullopt;
  PseudoRandom random(block.end, block.count());
  std::vector<Point> seen;
  meaning_.work = 0;
  meaning_.limit = options_.work_per_kernel;
  meaning_.forget_asked();
  const int64_t before = region.work + work_of_others_;
  for (uint64_t n = 0;; ++n) {
    const bool rare = alike || meaning_.asked() == Unknowns::Asks::equality;
    if (n >= (rare ? edges_where_rare : meaning_.asked() == Unknowns::Asks::order ? edges_of_order : edges)) break;
    if (n >= least_edges && region.work + work_of_others_ - before > (rare ? most_work_where_rare : most_work_of_edges))
      break;
    Sample sample = Sample::number(2000 + n);
    sample.rising = false;
    sample.edge = true;
    sample.exact = exact_;
    meaning_.choose(sample);
    const int64_t element = random.below(block.count());
    seen.push_back({sample, element, region.values(block, {element}).front()});
    too_long_ = false;
    if (!agrees(guess, {seen.back()}, most_work_, nullptr))
      return too_long_ ? std::nullopt : std::optional(seen.back());
    alike = alike && this->alike(seen, {});
  }
  return std::nullopt;
}

/// Strides of the loops that a dimension of a computed value is made of.
std::vector<int64_t> ContentsWalk::steps_inside(const Instruction& i, size_t dim) const {
  std::vector<int64_t> out;
  if (i.opcode != Opcode::compute) return out;
  for (const IndexTerm& term : reference_[i.node].space.output.dims[dim].terms) out.push_back(term.stride);
  return out;
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

/// Blocks of attention between bf16 operands round the weights before they are divided by their sum, the program behind
/// it; and sum(weights * their gradient) is taken as sum(result * its gradient), of a result whose weights were
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

/// Whether roundings to bf16 make a difference to both or to neither.
bool ContentsWalk::round_alike(Region& region, const Written& block, const Guess& guess,
                               const std::vector<Point>& points) {
  bool by_text = false, by_program = false;
  for (const Point& point : points) {
    const Index index = index_at(meaning_.ranges(guess.value), guess.strides, point.element);
    meaning_.work = meaning_.limit = 0;
    meaning_.choose(point.sample);
    const double expected = meaning_.at(guess.value, index);
    Sample rounding = point.sample;
    rounding.exact = false;
    meaning_.choose(rounding);
    by_program = by_program || !close(meaning_.at(guess.value, index), expected);
    by_text = by_text || !close(region.values(block, {point.element}).front(), point.value);
  }
  return by_text == by_program;
}

std::pair<std::vector<int64_t>, std::vector<int64_t>> ContentsWalk::layout(const Guess& guess) const {
  std::vector<int64_t> extents;
  for (const Range& range : meaning_.ranges(guess.value)) extents.push_back(range.hi - range.lo);
  return {extents, guess.strides};
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
  try {
    guess = settle(region, block, values, sample(region, block, enough));
  } catch (const NotHeld&) {  // what they were computed from is gone
  } catch (const TooLong&) {
  }
  meaning_.close();
  return guess;
}

void ContentsWalk::no_match(const Written& block, const std::vector<Point>& points,
                            const std::vector<ValueId>& candidates, const std::string& name, bool scratch) {
  std::string place = fmt::format("what is written to bytes {} to {} through {}", block.begin, block.end, name);
  for (ValueId v : candidates) {
    if (!named_alike(v, name)) continue;
    std::string why;
    const std::vector<Range>& ranges = meaning_.ranges(v);
    too_long_ = false;
    agrees({v, dense_strides(ranges, row_major(ranges.size()))}, points, most_work_, &why);
    if (too_long_ && !scratch) throw TooLong();
    throw Differs(fmt::format("{} is not {}, nor anything else the program computes: {}", place, part_text(v), why),
                  block.line, program_.values[size_t(v)].node);
  }
  if (too_long_ && !scratch) throw TooLong();
  throw Differs(fmt::format("{} is nothing the program computes{}", place,
                            candidates.empty() ? ": no value has so many elements" : ""),
                block.line);
}

}  // namespace hetsynth::source
