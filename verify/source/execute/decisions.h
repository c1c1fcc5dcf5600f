// What a text decides while it computes an element: how each of its conditions on integers comes out. Elements that are
// decided alike are computed alike.
#pragma once
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "verify/source/text/syntax.h"

namespace hetsynth::source {

class Decisions {
 public:
  /// The condition of the text, and whether only those count that are known to lead to the element: others were made on
  /// the way, for other elements or for what all of them need.
  using Key = std::pair<const Expression*, bool>;
  /// Each time that the condition was looked at, as a hash.
  using Made = std::map<Key, uint64_t>;
  /// By condition; what a value depends on.
  using Trace = std::vector<std::pair<const Expression*, uint64_t>>;

  /// Forgets what it knows. The element lies at this byte.
  void begin(int64_t byte);
  /// Whether a is less, equal or more than b, and what follows from that (of unsigned ones something else may).
  void note(const Expression& condition, int64_t a, int64_t b, bool holds, int thread = 0);
  /// What was decided within a turn of a loop means nothing for the next one.
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
