// What the SPMD program says one rank's values are, element by element, in terms of the values in its memory. These
// count as unknowns: each element of each is a pseudo-random number, so that two computations that give the same
// numbers for several choices are the same function of memory (Schwartz 1980, Zippel 1979).
#pragma once
#include <array>
#include <map>
#include <set>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include "verify/source/meaning/linear.h"
#include "verify/source/meaning/unknowns.h"

namespace hetsynth::source {

/// An element is asked for that follows from nothing in memory.
class NotHeld : public std::runtime_error {
 public:
  NotHeld(ValueId value, const std::string& what) : std::runtime_error(what), value(value) {}
  ValueId value;
};

/// More work than the limit allows.
class TooLong : public std::runtime_error {
 public:
  explicit TooLong(const std::string& what = "this", int line = 0)
      : std::runtime_error("evaluating " + what + " by hand takes too long"), line(line) {}
  int line;
};

/// More work than the whole check may take (SourceOptions::work_in_all). No part of it goes on after that.
class SpentAll : public std::runtime_error {
 public:
  SpentAll() : std::runtime_error("holding all of the text against the program takes longer than it may") {}
};

/// Position of an element; of tensors of at most `most` dimensions.
class Index {
 public:
  static constexpr size_t most = 16;
  Index() = default;
  explicit Index(size_t size) : size_(size) {}
  void resize(size_t size) { size_ = size; }
  size_t size() const { return size_; }
  int64_t& operator[](size_t d) { return at_[d]; }
  int64_t operator[](size_t d) const { return at_[d]; }
  const int64_t* begin() const { return at_.data(); }
  const int64_t* end() const { return at_.data() + size_; }

 private:
  std::array<int64_t, most> at_{};
  size_t size_ = 0;
};

/// The maximum; what is not a number stays so.
double larger(double a, double b);
/// A function of one or two numbers (dsl/ir/arithmetic.h); what is not a number stays so.
double number(ExprKind kind, double a, double b);

class Meaning {
 public:
  /// The arguments must outlive this.
  Meaning(const Program& reference, const SpmdProgram& program, int rank);

  const std::vector<Range>& ranges(ValueId value) const { return ranges_[size_t(value)]; }
  int64_t count(ValueId value) const { return counts_[size_t(value)]; }
  DType dtype(ValueId value) const { return dtypes_[size_t(value)]; }
  const Shape& shape(ValueId value) const { return reference_[program_.values[size_t(value)].node].type.shape; }
  int64_t bytes(ValueId value) const { return count(value) * size_bytes(dtype(value)); }
  /// The instruction that makes a value; -1 for leaves.
  int maker(ValueId value) const { return makers_[size_t(value)]; }

  /// Whether the value is another one, kept in a place of its own while a loop goes on: what it is does not tell it
  /// apart.
  bool is_kept_copy(ValueId value) const { return kept_copy_[size_t(value)]; }

  /// Whether the value follows from nothing in memory: a sum of no terms, a number that the program fills a tensor
  /// with.
  bool is_constant(ValueId value) const { return constant_[size_t(value)]; }

  /// By value, or the one it was found to be the same as: the one that stands for it elsewhere.
  using Twins = std::map<ValueId, ValueId>;
  /// Whether one value may stand for another: they have the same type and parts, and nothing else stands for it.
  bool pairs(ValueId then, ValueId now, Twins& twins) const;
  /// At some time: what counted as what it is computed from (open), and the unknowns that values came from.
  struct Known {
    std::set<ValueId> opened, unknowns;
    std::map<int64_t, int64_t> streams = {};  ///< of random numbers: which one now stands for which of then
  };
  std::set<ValueId> unknowns_behind(const std::vector<ValueId>& values, const std::set<ValueId>& opened) const;
  /// Whether `now` is of the twins what `then` was, at that time, of what they stand for. Adds twins of unknowns that
  /// have none.
  bool same_function(ValueId then, ValueId now, Twins& twins, const Known& known) const;

  /// Told by the walker: the value is in memory. Elements of it are unknowns from now on.
  void hold(ValueId value);
  void release(ValueId value);
  bool holds(ValueId value) const { return held_[size_t(value)]; }
  /// The values count as what they are computed from, although they are in memory.
  void open(const std::set<ValueId>& values);
  void close() { open({}); }
  /// Two values were found to be the same computation.
  void identify(ValueId value, ValueId with);
  /// Of a value that is not in memory itself, the same computation that is; -1 without one.
  ValueId first_in_memory(ValueId value) const;
  /// Instructions that join their operands, of one position each, to one tensor, as what a loop fills turn by turn.
  const std::vector<int>& joins() const { return joins_; }
  /// Whether the values were found to be the same computation, or are one.
  bool same(ValueId value, ValueId other) const { return root(value) == root(other); }
  /// Of a view of all that the rank has of another value, that value; else the value itself.
  ValueId source(ValueId value) const;

  /// Operators' constants count as the floats that kernels have of them, or as they are: the difference this makes to a
  /// result is how much rounding may change it.
  void choose(const Sample& sample, bool float_constants = true);
  /// The same, with nothing remembered.
  void choose_anew(const Sample& sample);
  /// Another number whenever elements may be worth something else.
  uint64_t moment() const { return moment_; }
  /// Whether a conversion to 16 bits rounds.
  bool rounds() const { return !sample_.exact; }
  /// The element at this global index. Throws NotHeld, TooLong.
  double at(ValueId value, const Index& index);

  /// If the value is a sum that is computed here: the range of each factor that it is summed over. Empty: it is none.
  std::vector<Range> summed_over(ValueId value) const;
  /// What is asked of a term beside its value, where nothing is known of anything it is computed from (choose_anew).
  struct Watch {
    bool bounded = false;  ///< whether an operand of the sum itself has such an element is somebody else's concern
    bool flips = false;    ///< points next to where it changes whether an operand has an element may be looked at
    /// Told: numbers of loops decide nothing, but for these.
    bool alike = true;
    std::set<std::vector<int64_t>> next_to_flips = {};
  };
  /// The part of such a sum that these numbers of its factors contribute; -1: all numbers of a factor do. Throws
  /// NotHeld, TooLong.
  double term(ValueId value, const Index& index, const std::vector<int64_t>& point, Watch* watch = nullptr);

  /// The index at a row-major position in the logical tensor.
  Index index_of(ValueId value, int64_t position) const;
  /// Whether the elements of the value are unknowns.
  bool opaque(ValueId value) const;
  /// Such an element at a row-major position in the logical tensor.
  double unknown(ValueId value, int64_t position) const;
  /// The number of the step.
  int64_t step() const { return unknowns_.step(sample_); }
  /// What the program asks of anything that was looked at since then.
  Unknowns::Asks asked() const { return asked_; }
  void forget_asked() { asked_ = Unknowns::Asks::nothing; }

  /// Evaluations so far; `limit` makes TooLong.
  int64_t work = 0;
  int64_t limit = 0;
  /// Evaluations of all that was looked at; `most_in_all` makes SpentAll.
  int64_t in_all = 0;
  int64_t most_in_all = 0;

 private:
  struct Compute;
  ValueId root(ValueId value) const;
  bool shows(ValueId value, ValueId other) const;
  bool made_here(ValueId value) const;
  bool same_operand(ValueId then, ValueId now, Twins& twins, const Known& known, int depth) const;
  bool same_maker(ValueId then, ValueId now, Twins& twins, const Known& known, int depth) const;
  ValueId same_in_memory(ValueId value) const;
  ValueId first_of_same(ValueId value) const;
  bool in_part(ValueId value, const Index& index) const;
  void note_source(const Instruction& i);
  /// In memory, be it as a view of it. Of roots.
  bool known(ValueId root) const { return copies_[size_t(root)] > 0 || shown_[size_t(root)] > 0; }
  void change() { changed_ = true, ++moment_; }
  double through(ValueId value, const Index& index);
  const Instruction& computed_by(ValueId value) const;
  double made(ValueId value, const Index& index);
  template <class Make>
  double by_own_or_first(ValueId value, const Make& make);
  double compute(const Instruction& instruction, const Index& index, const std::vector<int64_t>* point = nullptr);
  double evaluate(const Expr& e, Compute& frame);
  double operand(Compute& frame, int j);
  void follow_index(Compute& frame, const std::vector<int64_t>* point);
  Linear follow_access(const Compute& frame, const DimIndex& dim) const;
  bool moves(const Expr& e) const;
  void note_bounds(const Linear& number, int64_t value, int64_t extent);
  int64_t flat(ValueId value, const Index& index) const;

  const Program& reference_;
  const SpmdProgram& program_;
  int rank_;
  std::vector<std::vector<Range>> ranges_;
  std::vector<int64_t> counts_;
  std::vector<int> makers_;
  std::vector<bool> held_, constant_, view_, kept_copy_;
  std::vector<ValueId> within_;  ///< by value: of what a halo exchange makes, the part that the rank had itself; or -1
  std::vector<int> joins_;       ///< see joins
  std::vector<int> joined_dim_;  ///< by node: the dimension along which it joins tensors of one position each; -1: none
  std::vector<ValueId> source_;  ///< see source; -1: the value itself
  std::vector<int> copies_;      ///< by root: values in memory that were found to be this one
  std::vector<int> shown_;       ///< by root: views of it in memory
  std::vector<ValueId> alias_;
  std::vector<std::vector<ValueId>> same_;  ///< by value: others that are the same of the same leaves, and itself
  std::vector<std::vector<Range>> factor_ranges_;  ///< by instruction
  std::vector<OneHot> one_hot_;                    ///< by node
  std::vector<bool> looks_up_;
  std::vector<std::vector<int>> reduced_;      ///< by node: factors that are looped over
  std::vector<DType> dtypes_;                  ///< by value
  std::vector<std::vector<int64_t>> factors_;  ///< by depth of evaluation
  Unknowns unknowns_;
  mutable Unknowns::Asks asked_ = Unknowns::Asks::nothing;
  Sample sample_;
  bool changed_ = true;  ///< since something was remembered in known_
  uint64_t moment_ = 1;
  bool float_constants_ = true;
  std::unordered_map<uint64_t, double> known_;
  std::vector<bool> opened_;
  bool any_opened_ = false;
  int depth_ = 0;
  // These are set while a term is watched.
  Watch* watch_ = nullptr;
  Counters counters_;
  std::vector<Linear> index_;                ///< by dimension: of the element that is asked for
  std::vector<std::vector<Linear>> moving_;  ///< by depth of evaluation, by factor
};

}  // namespace hetsynth::source
