// Executes a piece of generated code for some elements of a block that it writes: of the loops, those turns run that
// the elements depend on. Memory's contents are the unknowns of meaning.h.
#pragma once
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "verify/source/execute/decisions.h"
#include "verify/source/execute/memory.h"
#include "verify/source/execute/outline.h"

namespace hetsynth::source {

/// Which turns of the loops run. A loop in neither list runs in full, a loop over chunks only where a loop inside does.
constexpr int first_waiting = 1 << 24;  ///< more than there are variables
struct Selection {
  std::set<int> full;
  std::map<int, std::set<int64_t>> only;  ///< by slot: counters (Affine's); empty: none yet
  /// Loops of `only` whose other turns count as nothing: what they would leave in sums is not missed.
  std::set<int> alone;
  std::set<int> read_back;  ///< other blocks that are added to, and read again
  std::set<int> wanted;     ///< variables of sums over rows, and of what they make, that something depends on

  /// Loops that only spread the block's elements run where these bytes are written. Loops whose effects are elsewhere
  /// run where something is read of it, as it turns out; reductions to single variables run in full.
  Selection(const Outline& outline, int block, const std::vector<int64_t>& bytes);
  void single(int slot, const std::set<int64_t>& turns) { full.erase(slot), only[slot] = turns, alone.insert(slot); }
  /// Of a loop over chunks, those that such turns lie in.
  void single_chunks(int slot) { full.erase(slot), alone.insert(slot); }
  /// What is added to the block at looked-up places: of loops that only spread elements, some turns.
  Selection(const Outline& outline, int block);

 private:
  void leave_others(const Outline& outline, const std::set<int>& around);
};

/// What does not change between executions of a region.
struct Code {
  const Outline& outline;
  const Statement& body;
  const Unit& unit;
  const Memory& memory;
};

/// Whether a loop over chunks has a loop inside, around this store, whose counter is known: that decides which chunks.
bool decided_inside(const Outline& outline, int chunks, const Store& store, const std::map<int, int64_t>& counters);

class Execution {
 public:
  /// A comparison with what is not a number: a root of a negative unknown.
  struct Undefined {};

  /// Adds to `selection` what turns out to be missing. `decisions` may be null.
  Execution(const Code& code, const Frame& frame, int block, Selection& selection, int64_t& work, int64_t limit,
            Decisions* decisions)
      : c_(code),
        frame_(frame),
        block_(block),
        selection_(selection),
        work_(work),
        limit_(limit),
        decisions_(decisions),
        arrays_(frame.size()) {}

  /// Throws NotFollowed, Misstep, TooLong, Undefined.
  void run() { execute(c_.body); }
  /// Something was read that the turns left out make: the results mean nothing, another execution is needed.
  bool widened() const { return widened_; }
  /// The element at this byte of the block. Throws Misstep if it was not written.
  double value(int64_t byte) const;
  /// Bytes that statements add to at looked-up places, in the order of execution.
  const std::vector<int64_t>& hits() const { return hits_; }

 private:
  struct LocalArray {
    std::vector<double> values;
    std::vector<uint64_t> set;      ///< by element: when
    uint64_t declared = 0;          ///< when
    uint64_t forgotten = 0;         ///< when last turns were left out that may have set any element, and
    int forgotten_by = -1;          ///< slot of their loop
    bool restricted = false;        ///< some loop that sets elements leaves out turns
    std::vector<uint32_t> checked;  ///< by element: moment at which what makes it was seen to run
  };

  void execute(const Statement& s);
  void declare(const Statement& s);
  void assign(const Statement& s);
  void loop(const Statement& s);
  void turn(const Statement& s, int64_t counter);
  std::set<int64_t> wanted_chunks(const Statement& s, int64_t begin, int64_t end) const;
  bool restricted(int slot) const;
  void forget(int slot, const Loop& loop);
  bool is_active(int slot) const;
  bool in_blocks(int64_t byte) const;
  bool puts_off(const Statement& s);
  bool waits(const Statement& s);
  int missing_of(const Expression& e) const;
  bool adds_elsewhere(const Statement& s);

  // What runs.
  void need(const Store& store, const std::map<int, int64_t>& counters);
  void need_all(const Store& store);
  void need_element(int array, int64_t at);
  void need_byte(int64_t byte, bool own);
  void run_in_full(int slot);

  int64_t integer_variable(int slot) const;
  int64_t integer(const Expression& e);
  int64_t compare(const Expression& e);
  bool decide(const Expression& condition);
  double real(const Expression& e);
  double call(const Expression& e);
  double row(const Expression& e, bool is_max);
  Pointer pointer(const Expression& e);
  int64_t element_integer(const Expression& e);
  double element(const Expression& e);
  double array_element(const Pointer& from, int64_t at, int line);
  double load(int64_t byte, DType dtype, int through);
  double variable(int slot);
  double lost(int loop);
  void count();

  const Code& c_;
  Frame frame_;
  int block_;
  Selection& selection_;
  int64_t& work_;
  int64_t limit_;
  Decisions* decisions_;
  bool widened_ = false;
  bool adding_ = false;  ///< to the element that is read
  std::vector<int> active_;
  std::unordered_map<int64_t, double> overlay_;  ///< bytes written by this execution
  std::unordered_set<int64_t> seen_;             ///< bytes of it for which what makes them runs
  std::unordered_set<int64_t> added_to_;         ///< the same, where they are only added to
  std::vector<LocalArray> arrays_;               ///< by slot
  std::unordered_map<int, int> forgotten_;       ///< real variables: by which loop; from first_waiting on: see waits
  std::unordered_map<int64_t, int> lost_;        ///< bytes of other blocks: the same; -1 - block: by not adding
  bool any_waits_ = false;                       ///< some variable does
  std::vector<int64_t> hits_;
  uint64_t clock_ = 0;  ///< counts declarations of arrays and what happens to their elements
  uint32_t moment_ = 1;
  int line_ = 0, now_ = 0;
};

}  // namespace hetsynth::source
