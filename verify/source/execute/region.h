// One piece of generated code that reads and writes the arena: what it writes, and what value a written element gets.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "verify/source/execute/decisions.h"
#include "verify/source/execute/outline.h"

namespace hetsynth::source {

/// A call of a function that reads and writes the arena.
struct Call {
  std::string key;                ///< the same of calls that do the same, each at its places and with its
  std::vector<int64_t> streams;   ///< streams of random numbers
  std::map<int, int64_t> places;  ///< byte that a parameter points to
};

class Region {
 public:
  virtual ~Region() = default;

  virtual const std::string& function_name() const = 0;
  /// Integers that its text mentions.
  virtual std::set<int64_t> numbers() const = 0;

  /// Whether it does something on a condition.
  virtual bool decides() const = 0;

  /// nullopt: it is no call.
  virtual std::optional<Call> call() const { return std::nullopt; }

  /// Disjoint blocks.
  virtual const std::vector<Written>& written() const = 0;

  /// The values that elements of a block have after the region was executed. NaN: undefined. Throws NotFollowed,
  /// Misstep, TooLong.
  virtual std::vector<double> values(const Written& block, const std::vector<int64_t>& elements) = 0;
  /// Elements of a scattered block that the region adds to, with memory as it is, and their values; at most `most`.
  virtual std::vector<std::pair<int64_t, double>> hits(const Written& block, size_t most) = 0;

  /// Numbers of turns of loops, outermost first, that are alike and each add to every element of the block. Empty: none
  /// are known.
  virtual std::vector<int64_t> turns(const Written&) { return {}; }
  /// By these loops: turns next to where pieces of them begin and end.
  virtual std::vector<std::set<int64_t>> marks(const Written&) { return {}; }
  /// Whether turns of these loops are alike but for bounds on their counters, outside of which nothing is added.
  virtual bool bounded(const Written&) { return false; }
  /// Of such: turns on either side of where the bounds of an element are, the first and last ones, and one in the
  /// middle. Empty: they are not known.
  virtual std::vector<std::vector<int64_t>> turns_at_bounds(const Written&, int64_t /*element*/) { return {}; }
  /// What the element would be if of these loops only this turn ran; `none`: no turn. NaN: undefined. nullopt: turns
  /// depend on each other. Throws as `values`.
  virtual std::optional<double> term(const Written&, int64_t /*element*/, const std::vector<int64_t>& /*turn*/,
                                     bool /*none*/) {
    return std::nullopt;
  }

  /// Of a scattered block: what elements would be, at most so many, that this turn adds to if it ran alone. nullopt:
  /// turns depend on each other. Throws as `values`.
  virtual std::optional<std::vector<std::pair<int64_t, double>>> hits_of_turn(const Written&,
                                                                              const std::vector<int64_t>& /*turn*/,
                                                                              size_t /*most*/) {
    return std::nullopt;
  }

  /// Where `values` (of one element) and `term` note what they decide; null: nowhere.
  Decisions* decisions = nullptr;

  /// Evaluations so far; `limit` makes TooLong.
  int64_t work = 0;
  int64_t limit = 0;
};

}  // namespace hetsynth::source
