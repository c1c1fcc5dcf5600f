// Which elements of a written block are looked at, and with what in memory, to tell which value of the program it
// holds.
#include <algorithm>
#include <cmath>

#include "verify/source/meaning/pseudo_random.h"
#include "verify/source/step/arena_contents.h"

namespace hetsynth::source {
namespace {

constexpr size_t random_elements = 3;
/// Of elements of a block. Fewer, as those of constants and masks, lie alike in many orders.
constexpr size_t different_values = 3;
constexpr size_t most_hits = 48;
/// Looks at a block without elements.
constexpr int rounds_of_nothing = 8;
/// Evaluations after which a block gets no further elements once it has enough: three, or one where the same kernel
/// passed before.
constexpr int64_t dear = 150'000;
/// Evaluations that go into telling a guess's order of elements from others.
constexpr int64_t most_work_of_steps = 2'000'000;
/// Elements that are looked at where comparisons come out either way, and evaluations after which two are enough.
/// Where equality is asked for, or all elements are alike so far, what tells is rare.
constexpr uint64_t edges = 8, edges_of_order = 40, edges_where_rare = 128, least_edges = 2;
constexpr int64_t most_work_of_edges = 300'000, most_work_where_rare = 5'000'000;
/// The same where positions are named by numbers.
/// Of elements that are added to at looked-up places, more: a place that is left out shows there alone.
constexpr size_t most_named = 192, least_named = 4, least_named_of_scattered = 24;
constexpr int64_t most_work_of_named = 500'000;
/// Choices of the unknowns among which a guess and a neighbour that is worth the same so far are told apart.
constexpr uint64_t most_choices = 256;
constexpr int64_t most_work_of_choices = 500'000;
/// Operators between a value and memory whose offsets are such numbers.
constexpr size_t most_makers = 64;

/// Places that are tried until one is added to.
constexpr size_t most_places_of_all = 6;

bool same(double a, double b) { return close(a, b) || (std::isnan(a) && std::isnan(b)); }

}  // namespace

/// What has to do with how sums are looked at now, added to a choice of the unknowns.
Sample ContentsWalk::as_now(Sample sample) const {
  sample.exact = exact_;
  sample.small = opened_;
  return sample;
}

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
  // One somewhere, then the last with unknowns that grow, as code that goes through pieces and rescales what it has so
  // far depends on all of them, and with such that weigh alike whatever tensor they are of.
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
  // Adds a point; returns the evaluations that it took.
  const auto look = [&](const Sample& sample, int64_t element) {
    meaning_.choose(sample);
    const int64_t before = region.work + meaning_.work + work_of_others_;
    points.push_back({sample, element, region.values(block, {element}).front()});
    return region.work + meaning_.work + work_of_others_ - before;
  };
  for (int64_t element : elements) {
    bool again = !seen.insert(element).second;
    if (element < 0 || element >= count || (again && number > 2 && count > 2)) continue;
    bool passed = enough == 1 && points.size() >= 2;
    if (points.size() >= enough && (spent > dear || passed)) break;
    const int64_t work = look(as_now(Sample::number(++number)), element);
    spent += work;
    most = std::max(most, work);
  }
  if (block.scattered && !(enough == 1 && spent > dear)) {
    int64_t before = region.work + meaning_.work + work_of_others_;
    sample_hits(region, block, number, points);
    most = std::max(most, region.work + meaning_.work + work_of_others_ - before);
  }
  // Logarithms of probabilities and of what is left to 1 are numbers where all of memory lies between 0 and 1.
  if (std::ranges::all_of(points, [](const Point& p) { return std::isnan(p.value); }))
    for (Point point : std::vector<Point>(points)) {
      point.sample.positive = point.sample.small = true;
      look(point.sample, point.element);
    }
  most_work_ = work_ratio * most + least_work;
  if (count <= 2 && spent < dear)  // single values: several choices of the unknowns instead of several elements
    for (size_t i = 0; i < random_elements; ++i) look(as_now(Sample::number(++number)), 0);
  return points;
}

/// Most elements of a scattered block stay as they were filled: those that are added to tell more. Those the text does
/// not add to tell nothing of what it leaves out; so at last everything is added to the same place, one that is there.
void ContentsWalk::sample_hits(Region& region, const Written& block, uint64_t& number, std::vector<Point>& points) {
  for (int choice = 0; choice < 4; ++choice) {
    const size_t before = points.size();
    for (size_t k = 0; k < most_places_of_all && points.size() == before; ++k) {
      Sample sample = as_now({.seed = ++number, .positive = choice % 2 == 0, .together = choice == 3});
      if (sample.together && !places_.empty()) sample.place = places_[number % places_.size()];
      meaning_.choose(sample);
      for (auto [element, value] : region.hits(block, most_hits)) points.push_back({sample, element, value});
      if (!sample.place) break;
    }
  }
}

/// What is added to a block of no elements must never be added: a Misstep is thrown by what does.
void ContentsWalk::add_nothing(Region& region, const Written& block) {
  std::vector<Point> points;
  uint64_t number = 0;
  const int64_t before = region.work;
  for (int round = 0; round < rounds_of_nothing && region.work - before <= dear; ++round)
    sample_hits(region, block, number, points);
}

/// Whether the elements show what a kernel does with all operands, so that its next launch needs few.
bool ContentsWalk::tell_apart(const std::vector<Point>& points) {
  std::set<double> values;
  for (const Point& point : points) values.insert(point.value);
  return values.size() >= std::min(points.size(), different_values);
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
  const Sample sample = as_now({.seed = 1000 + points.size(), .positive = true});
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

/// Whether all of these elements are worth the same.
bool ContentsWalk::alike(const std::vector<Point>& points, const std::vector<Point>& steps) {
  const auto as_first = [&](const Point& p) { return same(p.value, points.front().value); };
  return std::all_of(points.begin(), points.end(), as_first) && std::all_of(steps.begin(), steps.end(), as_first);
}

/// `work`: evaluations are added to it.
ContentsWalk::Point ContentsWalk::point_at(Region& region, const Written& block, int64_t element, const Sample& sample,
                                           int64_t& work) {
  meaning_.work = 0;
  meaning_.limit = options_.work_per_kernel;
  meaning_.choose(sample);
  const int64_t before = region.work + work_of_others_;
  const Point out{sample, element, region.values(block, {element}).front()};
  work += region.work + work_of_others_ - before + meaning_.work;
  return out;
}

/// As long as it does not take too long: then too_long_ is set.
bool ContentsWalk::holds(const Guess& guess, const Point& point, int64_t& work) {
  too_long_ = false;
  const bool out = agrees(guess, {point}, most_work_, nullptr, /*some=*/false);
  work += meaning_.work;
  return out;
}

/// Whether the difference is none over the reals: of large numbers, another rounding to 16 bits of one is a large one.
bool ContentsWalk::only_rounds(Region& region, const Written& block, const Guess& guess, const Point& point,
                               int64_t& work) {
  if (exact_) return false;
  Sample exact = point.sample;
  exact.exact = true;
  return holds(guess, point_at(region, block, point.element, exact, work), work);
}

bool ContentsWalk::refutes(Region& region, const Written& block, const Guess& guess, const Point& point,
                           int64_t& work) {
  return !holds(guess, point, work) && !too_long_ && !only_rounds(region, block, guess, point, work);
}

/// Whether the text takes so much for an element that no further ones are looked at.
bool ContentsWalk::very_dear_element() const { return (most_work_ - least_work) / work_ratio > most_work_of_named; }

/// Whether further elements are alike, too.
bool ContentsWalk::stays_alike(Region& region, const Written& block, const std::vector<Point>& points) {
  bool out = alike(points, {});
  PseudoRandom random(block.end, block.count());
  int64_t work = 0;
  for (uint64_t n = 0; out && n < edges_of_order && work < most_work_where_rare; ++n) {
    Sample sample = Sample::number(2000 + n);
    sample.edge = n % 2 == 0;
    out = same(point_at(region, block, random.below(block.count()), sample, work).value, points.front().value);
  }
  return out;
}

/// An element at which the text differs from a guess, among some at which comparisons come out either way: more where
/// the program compares with something what is looked at, and where all elements are alike though the value is no
/// constant: zeros are not yet a gradient of max pooling that happens to be zero at those looked at so far.
std::optional<ContentsWalk::Point> ContentsWalk::other_element(Region& region, const Written& block, const Guess& guess,
                                                               bool alike, bool passed) {
  alike = alike && !meaning_.is_constant(guess.value);
  if ((passed && !alike) || very_dear_element()) return std::nullopt;
  PseudoRandom random(block.end, block.count());
  double first = 0;
  int64_t work = 0;
  meaning_.forget_asked();
  for (uint64_t n = 0;; ++n) {
    const bool rare = alike || meaning_.asked() == Unknowns::Asks::equality;
    if (n >= (rare ? edges_where_rare : meaning_.asked() == Unknowns::Asks::order ? edges_of_order : edges)) break;
    if (n >= least_edges && work > (rare ? most_work_where_rare : most_work_of_edges)) break;
    Sample sample = as_now(Sample::number(2000 + n));
    sample.rising = sample.balanced = false;
    sample.edge = true;
    if (n % 2 == 1) sample.small = false;  // what decides may do so among large numbers only
    const Point point = point_at(region, block, random.below(block.count()), sample, work);
    if (refutes(region, block, guess, point, work)) return point;
    if (n == 0) first = point.value;
    alike = alike && same(point.value, first);
  }
  return std::nullopt;
}

/// Where an operator puts operands that give 0 outside of themselves, and those that it is computed from in passing.
void ContentsWalk::note_offsets(ValueId value, std::set<ValueId>& seen, std::set<int64_t>& numbers) const {
  const int maker = meaning_.maker(value);
  if (maker < 0 || seen.size() >= most_makers || !seen.insert(value).second) return;
  const Instruction& i = program_.instructions[size_t(maker)];
  if (i.opcode != Opcode::compute) return;
  const Node& node = reference_[i.node];
  for (size_t j = 0; j < i.operands.size(); ++j) {
    const Access& access = node.space.inputs[j];
    const Shape& shape = reference_[program_.values[size_t(i.operands[j])].node].type.shape;
    for (size_t d = 0; access.zero_outside && d < access.dims.size(); ++d)
      numbers.insert({-access.dims[d].offset, shape[d] - access.dims[d].offset});
    if (!meaning_.holds(i.operands[j])) note_offsets(i.operands[j], seen, numbers);
  }
}

/// Elements next to positions that numbers of the text or offsets of the program name, along each dimension: there
/// things are cut and joined, and places that are looked up may be left out.
std::vector<ContentsWalk::Named> ContentsWalk::named_elements(const Region& region, const Written& block,
                                                              const Guess& guess, PseudoRandom& random) const {
  std::set<int64_t> numbers = region.numbers();
  std::set<ValueId> seen;
  note_offsets(guess.value, seen, numbers);
  const std::vector<Range>& ranges = meaning_.ranges(guess.value);
  std::vector<Named> out;
  std::set<std::pair<size_t, int64_t>> named;
  // Where something is looked up by numbers in memory, these are named, too: one of them may be left out anywhere.
  const auto is_integer = [&](ValueId value) { return meaning_.dtype(value) == DType::i32; };
  const bool looks_up = std::ranges::any_of(memory_.reads(), is_integer);
  std::set<int64_t> places;
  for (int64_t number : numbers)
    if (looks_up && !block.scattered) places.insert({number - 1, number, number + 1});
  for (int64_t place : places) out.push_back({random.below(block.count()), place});
  for (int64_t number : numbers)
    for (size_t d = 0; d < ranges.size(); ++d) {
      const int64_t extent = ranges[d].hi - ranges[d].lo;
      if (number < -1 || number > extent) continue;
      for (int64_t at : {number - 1, number, number + 1}) {
        if (at < 0 || at >= extent || !named.insert({d, at}).second) continue;
        const int64_t element = random.below(block.count());
        const Index index = index_at(ranges, guess.strides, element);
        const int64_t there = element + (at - index[d] + ranges[d].lo) * guess.strides[d];
        if (!block.scattered) out.push_back({there, std::nullopt});
        if (looks_up || block.scattered) out.push_back({there, at + ranges[d].lo});
      }
    }
  return out;
}

/// An element at which the text differs from a guess, among those.
std::optional<ContentsWalk::Point> ContentsWalk::named_element(Region& region, const Written& block, const Guess& guess,
                                                               bool passed) {
  if (passed || very_dear_element()) return std::nullopt;
  PseudoRandom random(block.begin + 2, block.count());
  std::vector<Named> elements = named_elements(region, block, guess, random);
  random.choose_some(elements, most_named);
  int64_t work = 0;
  const size_t least = block.scattered ? least_named_of_scattered : least_named;
  for (size_t n = 0; n < elements.size() && (n < least || work < most_work_of_named); ++n) {
    Sample sample = as_now(Sample::number(4000 + 4 * (n % 4)));
    sample.place = elements[n].place;
    sample.together = block.scattered ? n % 3 == 0 : sample.place.has_value();
    const Point point = point_at(region, block, elements[n].element, sample, work);
    if (refutes(region, block, guess, point, work)) return point;
  }
  return std::nullopt;
}

/// An element at which the text differs from a guess, among those at which it differed from another: with other values
/// as what they are computed from, or with other roundings, it is not to be forgotten.
std::optional<ContentsWalk::Point> ContentsWalk::disputed_element(Region& region, const Written& block,
                                                                  const Guess& guess) {
  int64_t work = 0;
  for (const Point& disputed : disputed_) {
    const Point point = point_at(region, block, disputed.element, as_now(disputed.sample), work);
    if (refutes(region, block, guess, point, work)) return point;
  }
  return std::nullopt;
}

/// What the guess is computed from, and what is computed from it, if it may be the same block.
std::vector<ContentsWalk::Guess> ContentsWalk::rivals(const Guess& guess) const {
  const auto alike = [&](ValueId v) {
    return v != guess.value && meaning_.dtype(v) == meaning_.dtype(guess.value) &&
           meaning_.ranges(v) == meaning_.ranges(guess.value) && meaning_.count(v) == meaning_.count(guess.value);
  };
  std::vector<Guess> out;
  for (const Instruction& i : program_.instructions) {
    if (i.opcode != Opcode::compute) continue;
    const bool uses = std::count(i.operands.begin(), i.operands.end(), guess.value) > 0;
    if (uses && alike(i.result)) out.push_back({i.result, guess.strides});
    if (i.result != guess.value) continue;
    for (ValueId operand : i.operands)
      if (alike(operand)) out.push_back({operand, guess.strides});
  }
  return out;
}

/// An element at which the text differs from a guess, among those at which a neighbour of the guess does that is worth
/// the same so far: what relu is taken of may be above 0 wherever it was looked at.
std::optional<ContentsWalk::Point> ContentsWalk::element_of_rival(Region& region, const Written& block,
                                                                  const Guess& guess, const std::vector<Point>& points,
                                                                  const std::vector<Point>& steps) {
  if (very_dear_element()) return std::nullopt;
  PseudoRandom random(block.begin + 3, block.count());
  const std::vector<Range>& ranges = meaning_.ranges(guess.value);
  int64_t work = 0;
  for (const Guess& rival : rivals(guess)) {
    if (!agrees(rival, points, most_work_, nullptr) || !agrees(rival, steps, most_work_, nullptr, /*some=*/false))
      continue;
    for (uint64_t n = 0; n < most_choices && work < most_work_of_choices; ++n) {
      Sample sample = as_now(Sample::number(6000 + n));
      sample.edge = n % 4 == 3;
      const int64_t element = random.below(block.count());
      const std::optional<bool> differ =
          differ_at(guess.value, rival.value, index_at(ranges, guess.strides, element), sample, work);
      if (!differ) break;
      if (!*differ) continue;
      const Point point = point_at(region, block, element, sample, work);
      if (refutes(region, block, guess, point, work)) return point;
      break;
    }
  }
  return std::nullopt;
}

/// Whether two values differ by far in an element; nothing where this does not follow from memory, or takes too long.
std::optional<bool> ContentsWalk::differ_at(ValueId a, ValueId b, const Index& index, const Sample& sample,
                                            int64_t& work) {
  meaning_.choose(sample);
  meaning_.work = 0;
  meaning_.limit = most_work_;
  std::optional<bool> out;
  try {
    const double one = meaning_.at(a, index), other = meaning_.at(b, index);
    out = std::isfinite(one) && std::isfinite(other) &&
          std::abs(one - other) > 1e-2 * std::max(std::abs(one), std::abs(other));
  } catch (const NotHeld&) {
  } catch (const TooLong&) {
  }
  work += meaning_.work;
  return out;
}

/// Strides of the loops that a dimension of a computed value is made of.
std::vector<int64_t> ContentsWalk::steps_inside(const Instruction& i, size_t dim) const {
  std::vector<int64_t> out;
  if (i.opcode != Opcode::compute) return out;
  for (const IndexTerm& term : reference_[i.node].space.output.dims[dim].terms) out.push_back(term.stride);
  return out;
}

}  // namespace hetsynth::source
