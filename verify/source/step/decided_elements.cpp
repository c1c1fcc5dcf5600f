// Elements next to which a condition of the text on its counters comes out otherwise, whatever arithmetic it is made
// of: what a text computes in few elements alone is seen there.
#include <algorithm>
#include <functional>
#include <numeric>

#include "verify/source/meaning/pseudo_random.h"
#include "verify/source/step/arena_contents.h"

namespace hetsynth::source {
namespace {

/// Elements through which lines are laid: any, and some that were found.
constexpr size_t random_bases = 4, most_found_bases = 6;
/// Elements that are looked at for one condition on one line, and changes of it in a block. With 12 changes, four of
/// 360 damaged places of tests/source/decided_by_counters_test.cpp are missed, with 24 two.
constexpr int most_looks = 48, most_changes = 24;
/// Evaluations after which a block has enough of them, and the same while there are few. With 500,000 from the start
/// the test misses two in a hundred, in kernels of which an element takes 20,000; without an end ResNet-101 takes 64 s
/// of a core, not 50.
constexpr size_t few_looks = 128;
constexpr int64_t most_work_of_decisions = 500'000, most_work_of_few = 3'000'000;
/// Elements found that are held against the program however much work that is.
constexpr size_t least_decided = 16;

/// Elements of a block that are as far apart as each other.
struct Line {
  int64_t step = 1, count = 0;
  int64_t position(int64_t element) const { return element / step % count; }
  int64_t at(int64_t element, int64_t position) const { return element + (position - this->position(element)) * step; }
};

/// Along each dimension, and along adjacent ones that the text may go through in one loop.
std::vector<Line> lines_of(const std::vector<Range>& ranges, const std::vector<int64_t>& strides, int64_t count) {
  std::vector<size_t> dims(ranges.size());
  std::iota(dims.begin(), dims.end(), size_t(0));
  const auto extent = [&](size_t d) { return ranges[d].hi - ranges[d].lo; };
  std::erase_if(dims, [&](size_t d) { return extent(d) <= 1; });
  std::ranges::sort(dims, {}, [&](size_t d) { return -strides[d]; });
  std::vector<Line> out;
  for (size_t last = 0; last < dims.size(); ++last) {
    Line line{strides[dims[last]], 1};
    for (size_t d = last + 1; d-- > 0 && strides[dims[d]] == line.step * line.count;) {
      line.count *= extent(dims[d]);
      out.push_back(line);
    }
  }
  std::erase_if(out, [&](const Line& line) { return line.step * line.count > count; });
  return out;
}

/// Where on a line one condition comes out otherwise, by halving between elements where it does. Of conditions that
/// change their mind more than once between two elements some changes are missed.
class Halving {
 public:
  /// Null: no further element may be looked at.
  using Look = std::function<const Decisions::Made*(int64_t)>;
  /// `changes` are counted up.
  Halving(const Look& look, Decisions::Key condition, int& changes, std::set<int64_t>& out)
      : look_(look), condition_(condition), changes_(changes), out_(out) {}

  void between(const Line& line, int64_t element, int64_t low, int64_t high) {
    const std::optional<uint64_t> below = decided(line.at(element, low)), above = decided(line.at(element, high));
    if (looks_ > most_looks || changes_ > most_changes || !below || !above || below == above) return;
    if (high - low == 1) {
      ++changes_;
      out_.insert({line.at(element, low), line.at(element, high)});
      return;
    }
    ++looks_;
    const int64_t middle = low + (high - low) / 2;
    between(line, element, low, middle);
    between(line, element, middle, high);
  }

 private:
  std::optional<uint64_t> decided(int64_t element) const {
    const Decisions::Made* decisions = look_(element);
    if (!decisions) return std::nullopt;
    const auto found = decisions->find(condition_);
    return found == decisions->end() ? 0 : found->second;
  }

  const Look& look_;
  Decisions::Key condition_;
  int& changes_;
  std::set<int64_t>& out_;
  int looks_ = 0;
};

/// A region notes what it decides.
class Noting {
 public:
  Noting(Region& region, Decisions& to) : region_(region) { region.decisions = &to; }
  ~Noting() { region_.decisions = nullptr; }

 private:
  Region& region_;
};

}  // namespace

std::vector<int64_t> ContentsWalk::decided_elements(Region& region, const Written& block, const Guess& guess,
                                                    PseudoRandom& random, const std::function<void(int64_t)>& look) {
  if (!region.decides()) return {};
  std::map<int64_t, Decisions::Made> known;
  const int64_t before = region.work;
  const Halving::Look decisions_of = [&](int64_t element) -> const Decisions::Made* {
    if (const auto found = known.find(element); found != known.end()) return &found->second;
    const int64_t work = region.work - before;
    if (work > (known.size() < few_looks ? most_work_of_few : most_work_of_decisions)) return nullptr;
    Decisions decisions;
    {
      const Noting noting(region, decisions);
      meaning_.work = 0;
      meaning_.limit = options_.work_per_kernel;
      meaning_.choose_anew(alike_everywhere);
      look(element);
    }
    return &(known[element] = decisions.made());
  };
  std::set<int64_t> out;
  std::map<Decisions::Key, int> changes;
  std::vector<int64_t> bases;
  for (size_t n = 0; n < random_bases; ++n) bases.push_back(random.below(block.count()));
  for (size_t n = 0; n < bases.size(); ++n) {
    // What several counters decide together changes near where it does on a line.
    if (n + 1 == random_bases) {
      std::vector<int64_t> found(out.begin(), out.end());
      random.choose_some(found, most_found_bases);
      bases.insert(bases.end(), found.begin(), found.end());
    }
    const int64_t base = bases[n];
    const Decisions::Made* at_base = decisions_of(base);
    if (!at_base || at_base->empty()) break;
    for (const Line& line : lines_of(meaning_.ranges(guess.value), guess.strides, block.count())) {
      const int64_t position = line.position(base);
      for (const auto& [low, high] : {std::pair(int64_t(0), position), std::pair(position, line.count - 1)}) {
        std::set<Decisions::Key> conditions;
        for (int64_t at : {low, high})
          if (const Decisions::Made* decisions = decisions_of(line.at(base, at)))
            for (const auto& [condition, decided] : *decisions) conditions.insert(condition);
        for (const Decisions::Key& condition : conditions)
          Halving(decisions_of, condition, changes[condition], out).between(line, base, low, high);
      }
    }
  }
  return {out.begin(), out.end()};
}

/// An element at which the text differs from a guess, among those.
std::optional<ContentsWalk::Point> ContentsWalk::decided_element(Region& region, const Written& block,
                                                                 const Guess& guess, bool passed) {
  if (passed || very_dear_element()) return std::nullopt;
  PseudoRandom random(block.begin + 5, block.count());
  std::vector<int64_t> elements =
      decided_elements(region, block, guess, random, [&](int64_t element) { region.values(block, {element}); });
  random.choose_some(elements, elements.size());  // in any order, as the work may end before the last one
  int64_t work = 0;
  for (size_t n = 0; n < elements.size() && (n < least_decided || work < most_work_of_few); ++n) {
    const Point point = point_at(region, block, elements[n], as_now(Sample::number(7000 + 4 * (n % 4))), work);
    if (refutes(region, block, guess, point, work)) return point;
  }
  return std::nullopt;
}

}  // namespace hetsynth::source
