// The shape of a piece of generated code: its loops with their bounds, the addresses that its assignments go to, and
// from these the blocks of the arena that it fills. Nothing is executed for it.
#pragma once
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "dsl/ir/type.h"
#include "verify/source/text/syntax.h"

namespace hetsynth::source {

/// The text contains something this reader does not know: nothing is said about it.
class NotFollowed : public std::runtime_error {
 public:
  NotFollowed(const std::string& what, int line) : std::runtime_error(what), line(line) {}
  int line;
};

/// The text does what no generated program may: reads another iteration's result, writes out of bounds.
class Misstep : public std::runtime_error {
 public:
  Misstep(const std::string& what, int line) : std::runtime_error(what), line(line) {}
  int line;
};

struct Pointer {
  int array = -1;  ///< -1: the arena, `at` in bytes; otherwise a local array, `at` in elements
  int64_t at = 0;
  int through = -1;  ///< slot of the parameter that it comes from
};

/// What a variable holds.
struct Cell {
  int64_t integer = 0;
  bool step = false;  ///< the number of the step, whichever that is
  double real = 0;
  Pointer pointer;
};
using Frame = std::vector<Cell>;

/// Whether a list of slots holds this one.
inline bool in(const std::vector<int>& slots, int slot) {
  return std::find(slots.begin(), slots.end(), slot) != slots.end();
}

/// Integers that are written in a statement and what it consists of.
std::set<int64_t> integers_of(const Statement& s);
/// Whether integers decide what is computed in it.
bool has_conditions(const Statement& s);

bool is_pointer(Type type);
/// Bytes that adding 1 to a pointer of this type moves it by.
int64_t stride_of(Type pointer);
/// Of what a pointer of this type points to.
DType element_type(Type pointer);

/// A block of the arena that the region fills completely.
struct Written {
  int64_t begin = 0, end = 0;  ///< bytes
  DType dtype = DType::f32;
  std::vector<int64_t> corners;  ///< offsets in elements that tell apart any two affine ways of filling it
  int line = 0;
  int pointer = -1;                ///< slot of the variable it is written through
  bool scattered = false;          ///< elements of it, if it has any, are looked up and added to
  std::vector<int64_t> ends = {};  ///< where parts end that are computed apart: to be looked at in any case
  int64_t element_bytes() const { return size_bytes(dtype); }
  int64_t count() const { return (end - begin) / element_bytes(); }
};

/// A number that is linear in loop counters. The counter of a loop that runs from 0 inside of a chunk counts as the sum
/// of it and of the chunk's first: as what a loop without chunks would count.
struct Affine {
  int64_t constant = 0;
  std::map<int, int64_t> coefficients;  ///< by slot of a loop's counter
};

struct Loop {
  const Statement* statement = nullptr;
  int64_t begin = 0, end = 0;  ///< all values of the counter lie in [begin, end)
  bool exact = true;           ///< it takes each of them once in every turn of the loops around
  int chunks_of = -1;          ///< slot of the loop over chunks that this one divides the work of
  bool relative = false;       ///< counts from 0 in every chunk
  std::vector<int> enclosing;  ///< slots of the loops around it
  std::vector<int> carried;    ///< real variables of outside that its body assigns
  std::vector<int> arrays;     ///< local arrays of outside that its body assigns
  int64_t extent() const { return end > begin ? end - begin : 0; }
  /// A loop over chunks of which there is one at most: its counter is constant.
  bool once() const { return statement->step > 1 && turns() <= 1; }
  int64_t turns() const { return extent() / statement->step + (extent() % statement->step != 0); }
};

/// An assignment to an element of the arena or of a local array.
struct Store {
  const Statement* statement = nullptr;
  int array = -1;  ///< slot of the local array; -1: the arena
  bool affine = false;
  bool injective = false;  ///< no element is written in two turns of the loops that its address depends on
  Affine address;          ///< bytes; elements of an array
  std::vector<int> loops;  ///< slots, outermost first
  bool conditional = false;
  int64_t low = 0, high = 0;  ///< bytes: first and one past the last it can write
  int block = -1;
  /// The part of an address that loop counters decide, where what is looked up in memory adds to it (so that the
  /// address as a whole is not affine).
  Affine remainder = {};
  /// What is looked up adds multiples of so many bytes: counters whose strides are smaller are told apart by the rest
  /// of a division by it. 0: nothing is known.
  int64_t modulus = 0;
  /// What is looked up adds less than so many bytes, those counters included: the other counters, whose strides are
  /// larger, are told apart by divisions. 0: nothing is known.
  int64_t span = 0;
};

class Outline {
 public:
  /// `frame` holds the values of the variables that are set before the code is entered; places of local arrays are
  /// added to it. Throws NotFollowed, Misstep. The function must outlive this.
  Outline(const Function& function, const Statement& body, Frame& frame);

  std::map<int, Loop> loops;  ///< by slot of the counter
  std::vector<Store> stores;
  std::map<int, std::vector<Store>> array_stores;  ///< by slot of the array
  std::vector<Written> written;                    ///< disjoint

  /// The counters with which the store writes the element at this byte (or index of its array). `chunks`: the counters
  /// of loops over chunks at the moment; only addresses of arrays depend on them. False: it never does.
  bool decode(const Store& store, int64_t at, std::map<int, int64_t>& counters, const Frame& chunks) const;

  /// The same of a store to looked-up places, for the counters that are in its remainder.
  bool decode_remainder(const Store& store, int64_t at, std::map<int, int64_t>& counters) const;

  /// Loops, outermost first, of which each turn adds to each element of the block, and whose turns are alike
  /// (alike_turns.cpp). Others may add to it as well, inside of them. Empty: none are known. Of a block that is added
  /// to at looked-up places: loops whose turns look up places, each of which may be the element's.
  std::vector<int> summed_over(int block) const;

  /// Of these loops: numbers linear in counters that decide, by being at least 0 or not, whether what a turn adds is
  /// anything. Each turn is alike but for these.
  std::vector<Affine> bounds_inside(int block) const;

 private:
  using Counters = std::map<int, int64_t>;

  void analyse(const Statement& s, std::vector<int>& around, bool conditional);
  void declare(const Statement& s);
  void enter_loop(const Statement& s, std::vector<int>& around, bool conditional);
  void bounds_from_chunks(Loop& loop, const std::set<int>& depends);
  void note_counters(const Expression& e, std::set<int>& out) const;
  std::optional<int64_t> fixed(const Expression& e, const Counters& counters) const;
  void note_assigned(const Statement& s, std::set<int>& declared, Loop& loop) const;
  bool affine(const Expression& e, Affine& out) const;
  bool affine_address(const Expression& target, int64_t element_bytes, Affine& out) const;
  void add_remainder(const Expression& e, int64_t scale, Store& store) const;
  void note_guards(const Expression& condition, std::map<int, int64_t>& guards) const;
  void find_remainder(Store& store) const;
  /// Is told what is added to a pointer on the way from its base, and the type of pointer that this is counted in.
  using OffsetVisitor = std::function<void(const Expression& index, Type counted_in)>;
  /// The variable that a pointer comes from: a parameter or a local array; null if it comes from nothing of the kind.
  const Expression* base_of(const Expression& pointer, const OffsetVisitor& visit = {}) const;
  void add_store(const Statement& s, const std::vector<int>& around, bool conditional);
  void set_limits(Store& store) const;
  bool always_empty(const std::vector<int>& around) const;
  std::vector<std::pair<int64_t, int>> digits(const Store& store) const;
  void find_injective(Store& store, int64_t unit) const;
  void check_dense(const Store& store, int64_t unit) const;
  bool alike(int slot) const;
  bool does_alike(int slot, bool boxes = false) const;
  std::vector<Affine> bounds_of_box(const Expression& e) const;
  bool bounded_from_outside(const std::vector<Affine>& bounds, int slot) const;
  template <class Visit>
  void each_but_bounds(const Expression& e, int slot, const Visit& visit) const;
  bool only_adds(int slot) const;
  bool fed_alike(int slot, std::set<int>& seen) const;
  bool counts_with(const Expression& e, int slot) const;
  std::vector<int> loops_of_sum(int variable) const;
  void find_blocks();
  void block_of(Store& store);
  void add_corners(const Store& store);

  const Function& function_;
  const Statement& body_;
  Frame& frame_;
  std::map<int, Affine> affine_;                  ///< integer variables that are affine in the counters
  std::set<int> declared_;                        ///< variables that the code declares itself
  std::map<int, const Expression*> definitions_;  ///< of integer variables
  std::map<int, const Expression*> pointers_;     ///< of pointers made inside
  std::map<int, int64_t> guards_;                 ///< integer variables that lie below so much where analyse is now
  std::set<int64_t> filled_with_nothing_;         ///< places in the arena that loops fill which never turn
};

}  // namespace hetsynth::source
