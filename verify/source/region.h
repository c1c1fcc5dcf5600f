// One piece of generated code that reads and writes the arena: a kernel called with given pointers, or a statement of
// the step. What it writes is found exactly from its loops; what value a written element gets is found by executing the
// code for that element alone.
#pragma once
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "verify/source/memory.h"
#include "verify/source/syntax.h"

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
};

/// What a variable holds.
struct Cell {
  int64_t integer = 0;
  double real = 0;
  Pointer pointer;
};
using Frame = std::vector<Cell>;

/// A block of the arena that the region fills completely.
struct Written {
  int64_t begin = 0, end = 0;  ///< bytes
  bool integer = false;
  std::vector<int64_t> corners;  ///< offsets in elements that tell apart any two affine ways of filling it
  int line = 0;
  int pointer = -1;        ///< slot of the variable it is written through
  bool scattered = false;  ///< elements of it are looked up and added to
};

class Region {
 public:
  /// `frame` holds the values of the variables that are set before the region is entered.
  Region(const Function& function, const Statement& body, Frame frame, const Unit& unit, const Memory& memory);

  const std::string& function_name() const { return function_.name; }

  /// Disjoint blocks. Throws NotFollowed, Misstep.
  const std::vector<Written>& written() const { return written_; }

  /// The values that elements of a block have after the region was executed. NaN: undefined. Throws NotFollowed,
  /// Misstep, TooLong.
  std::vector<double> values(const Written& block, const std::vector<int64_t>& elements);
  /// Elements of a scattered block that the region adds to, with memory as it is; at most `most`.
  std::vector<int64_t> hits(const Written& block, size_t most);

  /// Evaluations so far; `limit` makes TooLong.
  int64_t work = 0;
  int64_t limit = 0;

 private:
  struct Affine {
    int64_t constant = 0;
    std::map<int, int64_t> coefficients;  ///< by slot of a loop's counter
  };
  struct Loop {
    const Statement* statement = nullptr;
    int64_t begin = 0, end = 0;
    int chunks_of = -1;          ///< slot of the loop over chunks that this one runs inside of
    std::vector<int> enclosing;  ///< slots of the loops around it
    std::vector<int> carried;    ///< real variables of outside that its body assigns
    bool fills_arrays = false;   ///< its body assigns elements of arrays declared outside
    int64_t extent() const { return end > begin ? end - begin : 0; }
  };
  struct Store {
    const Statement* statement = nullptr;
    bool affine = false;
    Affine address;          ///< bytes
    std::vector<int> loops;  ///< slots, outermost first
    bool conditional = false;
    int64_t low = 0, high = 0;  ///< bytes: first and one past the last it can write
    int block = -1;
  };
  class Run;

  void analyse(const Statement& s, std::vector<int>& loops, bool conditional);
  void enter_loop(const Statement& s, std::vector<int>& loops, bool conditional);
  void add_store(const Statement& s, const std::vector<int>& loops, bool conditional);
  void note_assigned(const Statement& s, std::set<int>& declared, std::set<int>& assigned, bool& arrays) const;
  bool affine(const Expression& e, Affine& out) const;
  bool affine_address(const Expression& target, Affine& out) const;
  bool always_empty(const std::vector<int>& loops) const;
  void find_blocks();
  void check_dense(const Store& store) const;
  bool decode(const Store& store, int64_t byte, std::map<int, int64_t>& counters) const;

  const Function& function_;
  const Statement& body_;
  Frame frame_;
  const Unit& unit_;
  const Memory& memory_;
  std::map<int, Loop> loops_;
  std::map<int, Affine> constants_;  ///< integer variables that are affine in the counters
  std::vector<Store> stores_;
  std::vector<Written> written_;
  std::set<int> in_full_;  ///< loops whose results are read at other iterations later on
};

}  // namespace hetsynth::source
