// What a text decides while it computes an element: how each of its conditions on integers comes out. Elements that are
// decided alike are computed alike.
#pragma once
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "verify/source/text/syntax.h"

namespace hetsynth::source {

class Decisions {
 public:
  /// A condition of the text. True: only decisions count that the element's value is known to depend on. False: all
  /// that were made count, also for other elements on the way.
  using Key = std::pair<const Expression*, bool>;
  /// The hash of a condition is made of how it came out each time.
  using Made = std::map<Key, uint64_t>;
  /// A value depends on these conditions: each with how it came out, as a hash.
  using Trace = std::vector<std::pair<const Expression*, uint64_t>>;

  /// Forgets what it knows. The element lies at this byte.
  void begin(int64_t byte);
  /// Notes whether a is less, equal or more than b, and what the text takes it for, which differs for unsigned numbers.
  void note(const Expression& condition, int64_t a, int64_t b, bool holds, int thread = 0);
  /// A turn of a loop begins, or ends: what was decided within it means nothing for the next one.
  size_t turn() const { return log_.size(); }
  void end_turn(size_t begun) { log_.resize(begun); }

  /// The element of a local array, or the byte of the arena, is written or read: its value depends on what was decided.
  void written(int array, int64_t at, int thread = 0);
  void read(int array, int64_t at);
  static constexpr int arena = -1;

  const Made& made() const { return made_; }

 private:
  struct Entry {
    const Expression* condition;
    uint64_t how;
    int thread;
  };
  static void add(uint64_t& hash, uint64_t how);

  int64_t byte_ = -1;
  std::vector<Entry> log_;  ///< of the turn at hand, and of those around it so far
  Made made_;
  std::map<std::pair<int, int64_t>, Trace> traces_;  ///< by array and element, or byte
};

}  // namespace hetsynth::source
