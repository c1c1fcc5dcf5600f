// What the two kinds of step walks share: the account of which value every part of the arena holds. What a region
// leaves in memory is recognised as a value of the program, and what is exchanged is held against it.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "verify/source/execute/memory.h"
#include "verify/source/execute/region.h"
#include "verify/source/meaning/pseudo_random.h"
#include "verify/source/step/step_walk.h"

namespace hetsynth::source {

class ContentsWalk : public StepWalk {
 protected:
  /// Bytes of the arena that are read or written.
  struct Touched {
    int64_t begin = 0, end = 0;
    bool writes = false;
  };
  /// Bytes that two touch, of which one writes.
  struct Conflict {
    int64_t begin = 0, end = 0;
    bool ours_writes = false, theirs_writes = false;
  };
  static std::optional<Conflict> conflict(const std::vector<Touched>& ours, const std::vector<Touched>& theirs);

  /// `numbers`: by instruction, the one that the text calls it by; empty: its own.
  ContentsWalk(const Program& reference, const SpmdProgram& program, const RankSource& source,
               const SourceOptions& options, Unit& unit, std::vector<int> numbers);

  // contents.cpp
  /// Looks at the file as a whole, and puts the leaves where the runtime writes them.
  void begin();
  /// What the runtime reads after the step must lie where it reads it.
  void finish();
  /// `names`: by slot, what people call the memory behind it; `scratch`: what of it may be no value of the program.
  void understand(const std::shared_ptr<Region>& region, const std::vector<std::string>& names,
                  const std::set<int>& scratch = {});
  /// Understands a region as above and returns what it touches: exactly what is written, and of what is read all that
  /// lies where something was read or where an argument points to.
  std::vector<Touched> understood(const std::shared_ptr<Region>& region, const std::vector<std::string>& names,
                                  const std::vector<int64_t>& points_to, const std::set<int>& scratch = {});
  /// A number that is the same in every step.
  int64_t constant(const Expression& e) const;
  /// The same, or the number of the step.
  Cell number(const Expression& e) const;
  Pointer pointer(const Expression& e) const;
  void inside_arena(int64_t begin, int64_t end, DType dtype, int line) const;
  std::string part_text(ValueId value) const;

  // collectives.cpp
  /// A call of the runtime's collectives (codegen/interface/abi.h).
  void collective(const Expression& call);
  const Instruction* next_exchange();
  void expect_number(const Expression& found, int64_t expected, const std::string& what, NodeId node) const;
  void pass_collective();
  void expect_contents(ValueId value, int64_t byte, const std::string& what, int line);
  /// The element at this index must lie at this byte.
  void expect_element(ValueId value, const Index& index, int64_t byte, int64_t place, const std::string& what,
                      int line);
  void expect_element(ValueId value, const Index& index, int64_t byte, int64_t place, const std::string& what, int line,
                      const Sample& sample);

  const SourceOptions& options_;
  Unit& unit_;
  std::vector<int> numbers_;
  Meaning meaning_;
  Memory memory_;
  const Function* function_ = nullptr;
  Frame frame_;
  std::map<int, std::vector<int64_t>> arrays_;         ///< constant local arrays, by slot
  std::set<std::pair<int64_t, int64_t>> places_read_;  ///< by the region that was understood last: bytes

 private:
  struct Guess {
    ValueId value = -1;
    std::vector<int64_t> strides;
  };
  struct Point {
    Sample sample;
    int64_t element = 0;
    double value = 0;
  };

  void check_file() const;
  void place_leaves();
  void result_lies_there(const ArenaSlot& slot, ValueId value, const std::string& what);
  void keep_unrecognised(const std::shared_ptr<Region>& region, const Written& block, const std::set<ValueId>& beside,
                         std::exception_ptr error);

  // recognise.cpp
  /// `scratch`: it may be nothing of the program.
  Guess recognise(Region& region, const Written& block, const std::string& name, bool scratch);
  static bool tell_apart(const std::vector<Point>& points);
  std::optional<Guess> settle(Region& region, const Written& block, const std::vector<ValueId>& values,
                              std::vector<Point> points);
  void dispute(const Written& block, const std::vector<ValueId>& values, const std::vector<Point>& points);
  void dispute(const Guess& guess, const std::vector<Point>& points);
  void dispute(const Point& point);
  std::vector<Point> sample_steps(Region& region, const Written& block, const Guess& guess,
                                  const std::vector<Point>& points, bool passed);
  void note_offsets(ValueId value, std::set<ValueId>& seen, std::set<int64_t>& numbers) const;
  std::optional<Point> disputed_element(Region& region, const Written& block, const Guess& guess);
  struct Named {
    int64_t element;
    std::optional<int64_t> place;  ///< that numbers in memory lead to
  };
  /// Elements of a block on either side of where conditions of the text come out otherwise. `look` evaluates one.
  std::vector<int64_t> decided_elements(Region& region, const Written& block, const Guess& guess, PseudoRandom& random,
                                        const std::function<void(int64_t)>& look);
  /// All integers in memory are equal, so that a condition on one that is looked up comes out the same everywhere.
  static constexpr Sample alike_everywhere{.seed = 7000, .positive = true, .together = true, .place = 1};
  std::optional<Point> decided_element(Region& region, const Written& block, const Guess& guess, bool passed);
  std::vector<Named> named_elements(const Region& region, const Written& block, const Guess& guess,
                                    PseudoRandom& random) const;
  std::optional<Point> named_element(Region& region, const Written& block, const Guess& guess, bool passed);
  Point point_at(Region& region, const Written& block, int64_t element, const Sample& sample, int64_t& work);
  bool only_rounds(Region& region, const Written& block, const Guess& guess, const Point& point, int64_t& work);
  bool refutes(Region& region, const Written& block, const Guess& guess, const Point& point, int64_t& work);
  Sample as_now(Sample sample) const;
  bool very_dear_element() const;
  bool stays_alike(Region& region, const Written& block, const std::vector<Point>& points);
  bool holds(const Guess& guess, const Point& point, int64_t& work);
  static bool alike(const std::vector<Point>& points, const std::vector<Point>& steps);
  std::optional<Point> other_element(Region& region, const Written& block, const Guess& guess, bool alike, bool passed);
  std::vector<Guess> rivals(const Guess& guess) const;
  std::optional<Point> element_of_rival(Region& region, const Written& block, const Guess& guess,
                                        const std::vector<Point>& points, const std::vector<Point>& steps);
  std::optional<bool> differ_at(ValueId a, ValueId b, const Index& index, const Sample& sample, int64_t& work);
  std::vector<int64_t> steps_inside(const Instruction& i, size_t dim) const;
  std::optional<Guess> match(const std::vector<ValueId>& values, const std::vector<Point>& points);
  std::optional<Guess> match_opened(Region& region, const Written& block, const std::vector<ValueId>& values,
                                    size_t enough);
  std::optional<Guess> match_opened(const std::set<ValueId>& opened, Region& region, const Written& block,
                                    const std::vector<ValueId>& values, size_t enough);
  std::optional<Guess> match_unrounded(Region& region, const Written& block, const std::vector<ValueId>& values,
                                       size_t enough);
  bool weighs(const std::vector<ValueId>& values) const;
  bool round_alike(Region& region, const Written& block, const Guess& guess, std::vector<Point> points);
  /// What a block was found to be, as far as another launch of the same kernel makes it again.
  struct Passed {
    std::string operation;
    std::vector<int64_t> extents, strides;
    bool operator==(const Passed&) const = default;
  };
  Passed passed_as(const Guess& guess) const;
  bool is_sum(ValueId value) const;
  std::set<ValueId> sums_behind(ValueId value) const;
  std::optional<Guess> match_again(Region& region, const Written& block, const std::vector<ValueId>& values,
                                   size_t enough);
  std::optional<Guess> match_unread(Region& region, const Written& block, const std::vector<ValueId>& values,
                                    size_t enough);
  std::vector<Point> sample(Region& region, const Written& block, size_t enough);
  void sample_hits(Region& region, const Written& block, uint64_t& number, std::vector<Point>& points);
  std::vector<int64_t> places_of(const Region& region, const std::vector<ValueId>& values) const;
  void add_nothing(Region& region, const Written& block);
  void identify_same(const Guess& guess, const std::vector<ValueId>& values, const std::vector<Point>& points);

  // candidates.cpp
  std::vector<ValueId> candidates(const Written& block, const std::string& name) const;
  void list_candidates();
  bool named_alike(ValueId value, std::string_view name) const;
  /// What a loop makes in one turn for its next, under no name of its own, it makes in the others, too.
  bool is_usual(ValueId value) const { return !usual_.empty() && names_in_loop_[size_t(value)] == usual_; }
  bool named_again(ValueId value, std::string_view name) const;
  bool replaces_named(const std::pair<NodeId, ValueId>& final, const std::string& name) const;
  std::vector<ValueId> named(const std::vector<ValueId>& values, const std::string& name) const;
  void put_what_is_read_first(const Written& block, const std::string& name, std::vector<ValueId>& values) const;

  // known_calls.cpp
  using Twins = Meaning::Twins;
  /// A call, what it read, and what its blocks were found to be.
  struct KnownCall {
    struct Seen {
      int parameter;
      Resident there;
    };
    struct Block {
      int parameter;
      int64_t begin, end;
    };
    Call call;
    std::vector<Seen> reads;
    std::vector<Block> written;
    std::vector<Guess> made;
    Meaning::Known known;
  };
  void remember(const Region& region, const std::vector<Guess>& made);
  bool reads_alike(const KnownCall& known, const Call& call, const Region& region, Twins& twins);
  std::optional<std::vector<Guess>> made_as(const KnownCall& known, const Call& call, const Region& region,
                                            const std::vector<std::string>& names);
  std::optional<std::vector<Guess>> made_again(const Region& region, const std::vector<std::string>& names);

  // pieces.cpp
  std::optional<bool> joined(const std::vector<const Resident*>& pieces) const;
  static bool may_be_anything(const Region& region, const Memory::Read& read, const Resident& there);
  /// `region`: was understood last, and wrote something.
  void expect_pieces(const Region& region) const;

  // recognise_sums.cpp
  /// One turn of the loops that a block is summed over.
  struct Term {
    Sample sample;
    int64_t element = 0;
    std::vector<int64_t> turn;
    double value = 0;
  };
  /// Which factors of the program's sum the loops go through, outermost first: positions in Meaning::summed_over.
  using Order = std::vector<size_t>;
  std::optional<Guess> recognise_sum(Region& region, const Written& block, const std::string& name);
  std::vector<Term> sample_turns(Region& region, const Written& block, const std::vector<int64_t>& turns);
  double term_by_program(const Guess& guess, const Order& order, const std::vector<int64_t>& turns, const Term& term,
                         Meaning::Watch* watch = nullptr);
  bool add_turns_at_bounds(Region& region, const Written& block, const std::vector<int64_t>& elements,
                           std::vector<Term>& terms);
  bool sums_agree(const Guess& guess, const Order& order, const std::vector<int64_t>& turns,
                  const std::vector<Term>& terms);
  std::optional<Order> order_of_sum(Region& region, const Written& block, const Guess& guess,
                                    const std::vector<int64_t>& turns, const std::vector<Term>& terms);

  // confirm_sums.cpp
  std::vector<int64_t> turn_of(const Guess& guess, const Order& order, const std::vector<int64_t>& turns,
                               const std::vector<int64_t>& point) const;
  bool only_reads_differ(const Guess& guess, const Order& order, const std::vector<int64_t>& turns,
                         const std::vector<Term>& terms, std::vector<Term>* at_flips = nullptr);
  void add_named_elements(Region& region, const Written& block, const Guess& guess, const std::vector<Term>& terms,
                          std::vector<Term>& out);
  void dispute(const Guess& guess, const Order& order, const std::vector<int64_t>& turns,
               const std::vector<Term>& terms);
  bool agrees_in_all_turns(Region& region, const Written& block, const Guess& guess, const Order& order,
                           const std::vector<int64_t>& turns, const std::vector<Term>& terms);

  // recognise_scatters.cpp
  std::vector<Term> sample_looked_up(Region& region, const Written& block, const std::vector<int64_t>& turns,
                                     const std::vector<ValueId>& values);
  bool places_agree(Region& region, const Written& block, const Guess& guess, const Order& order,
                    const std::vector<int64_t>& turns);
  std::vector<int64_t> places_of_dimension(const Region& region, const Range& range, PseudoRandom& random) const;
  bool look_at_place(Region& region, const Written& block, const Guess& guess, const Order& order,
                     const std::vector<int64_t>& turns, const std::vector<std::vector<int64_t>>& looked_at,
                     int64_t element, int64_t place, std::vector<Term>& terms);

  bool agrees(const Guess& guess, const std::vector<Point>& points, int64_t limit, std::string* why, bool some = true);
  [[noreturn]] void no_match(const Written& block, const std::vector<Point>& points,
                             const std::vector<ValueId>& candidates, const std::string& name, bool scratch);

  void sent(const Expression& call, const Instruction& i);
  void expect_table(const Expression& found, const std::vector<int64_t>& expected, const std::string& what,
                    NodeId node) const;

  std::vector<bool> done_;                  ///< by instruction: its result was in memory
  std::vector<std::string> names_in_loop_;  ///< by value: its node's name, without the number of a turn
  std::vector<std::string> words_;          ///< by value: that name as generated text spells it
  /// Instructions by how many elements their results have here, and of which type.
  std::map<std::pair<int64_t, DType>, std::vector<size_t>> makers_of_form_;
  /// Blocks that were recognised, by function and variable.
  std::map<std::pair<std::string, int>, Passed> passed_;
  /// What they were found to be, by its name in its loop; and that of the block that is looked at.
  std::map<std::pair<std::string, int>, std::string> found_as_;
  std::string usual_;
  const std::set<ValueId> taken_over_{program_.taken_over.begin(), program_.taken_over.end()};
  std::map<std::string, std::vector<KnownCall>> known_calls_;  ///< by key, the first ones
  std::set<Memory::Read> read_through_;                        ///< by the region that was understood last
  std::set<ValueId> opened_for_match_;                         ///< see match_opened: by all of its blocks
  int frontier_ = 0;                                           ///< instruction that made what was recognised last
  int64_t work_of_others_ = 0;                                 ///< evaluations for what is unrecognised
  /// The program's side of a right guess takes about as many evaluations as the text's. What takes far more follows
  /// from memory only through much that was not computed yet.
  static constexpr int64_t work_ratio = 20, least_work = 10'000;
  int64_t most_work_ = 0;       ///< evaluations that the program's side of a guess may take
  bool bounded_turns_ = false;  ///< of the block that is looked at (Region::bounded)
  bool too_long_ = false;       ///< some guess took more
  bool exact_ = false;          ///< see match_unrounded
  bool opened_ = false;         ///< see match_opened
  /// Elements at which the block differed from some guess, to be looked at whatever it is held against next.
  static constexpr size_t most_disputed = 12;
  std::vector<Point> disputed_;
  std::vector<int64_t> places_;  ///< see places_of; of a scattered block that is looked at
  /// Sums of attention that are computed from rounded weights, and whether the program's side rounds them itself.
  std::map<NodeId, bool> weighed_;
};

/// Turns of loops of these extents: corners, steps, where pieces begin and end (`marks`, by loop), and random ones.
std::vector<std::vector<int64_t>> turns_to_look_at(const std::vector<int64_t>& extents,
                                                   const std::vector<std::set<int64_t>>& marks, PseudoRandom random);
bool close(double a, double b);
/// What decides makes large differences. At edges small ones say nothing, as those of constants in exponents of large
/// numbers, nor does what is too large for a float.
bool close_at_edge(double a, double b, const Sample& sample);
/// A call that is the runtime's, not the text's.
bool is_collective(const std::string& name);

}  // namespace hetsynth::source
