// Follows the step function of a rank statement by statement.
#pragma once
#include <optional>
#include <set>

#include "verify/source/region.h"
#include "verify/source/step_walk.h"

namespace hetsynth::source {

class Walk final : public StepWalk {
 public:
  /// `numbers`: by instruction, the one that the text calls it by; empty: its own.
  Walk(const Program& reference, const SpmdProgram& program, const RankSource& source, const SourceOptions& options,
       Unit& unit, std::vector<int> numbers = {});

  void run() override;

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

  // walk.cpp
  void check_file() const;
  void place_leaves();
  void declare(const Statement& s) override;
  void loop(const Statement& s) override;
  void turns(const Statement& s);
  void call(const Statement& s) override;
  void checked(const Expression& value, int line) override;
  /// `names`: by slot, what people call the memory behind it.
  void region(const Function& function, const Statement& body, Frame frame, const std::vector<std::string>& names);
  void finish();
  void result_lies_there(const ArenaSlot& slot, ValueId value, const std::string& what);
  int64_t constant(const Expression& e) const;
  Pointer pointer(const Expression& e) const;
  void inside_arena(int64_t begin, int64_t end, DType dtype, int line) const;
  std::string part_text(ValueId value) const;

  // recognise.cpp
  Guess recognise(Region& region, const Written& block, const std::string& name);
  std::optional<Guess> match(const std::vector<ValueId>& values, const std::vector<Point>& points);
  std::optional<Guess> match_opened(Region& region, const Written& block, const std::vector<ValueId>& values,
                                    size_t enough);
  std::vector<Point> sample(Region& region, const Written& block, size_t enough);
  void sample_hits(Region& region, const Written& block, uint64_t& number, std::vector<Point>& points);
  std::vector<ValueId> candidates(const Written& block, const std::string& name) const;
  bool named_alike(ValueId value, const std::string& name) const;
  bool agrees(const Guess& guess, const std::vector<Point>& points, std::string* why);
  [[noreturn]] void no_match(const Written& block, const std::vector<Point>& points,
                             const std::vector<ValueId>& candidates, const std::string& name);

  // collectives.cpp
  void collective(const Expression& call);
  void sent(const Expression& call, const Instruction& i);
  void pass_collective();
  void expect_number(const Expression& found, int64_t expected, const std::string& what, NodeId node) const;
  void expect_table(const Expression& found, const std::vector<int64_t>& expected, const std::string& what,
                    NodeId node) const;
  void expect_contents(ValueId value, int64_t byte, const std::string& what, int line);

  const SourceOptions& options_;
  Unit& unit_;
  std::vector<int> numbers_;
  Meaning meaning_;
  Memory memory_;
  const Function* function_ = nullptr;
  Frame frame_;
  std::map<int, std::vector<int64_t>> arrays_;    ///< constant local arrays, by slot
  std::vector<bool> done_;                        ///< by instruction: its result was in memory
  std::set<std::pair<std::string, int>> passed_;  ///< function and variable of blocks that were recognised
  int64_t most_work_ = 0;                         ///< evaluations that the program's side of a guess may take
  bool too_long_ = false;                         ///< some guess took more
};

bool close(double a, double b);

}  // namespace hetsynth::source
