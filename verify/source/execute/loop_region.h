// A region of loops: a kernel of a cpu called with given pointers, or a statement of the step. What it writes is found
// exactly from its loops (outline.h); what value a written element gets is found by executing the code for that element
// alone (execution.h).
#pragma once
#include "verify/source/execute/execution.h"
#include "verify/source/execute/region.h"

namespace hetsynth::source {

class LoopRegion final : public Region {
 public:
  /// `frame` holds the values of the variables that are set before the region is entered. Throws NotFollowed, Misstep.
  LoopRegion(const Function& function, const Statement& body, Frame frame, const Unit& unit, const Memory& memory);

  const std::string& function_name() const override { return function_.name; }
  std::set<int64_t> numbers() const override { return integers_of(code_.body); }
  bool decides() const override { return has_conditions(code_.body); }
  std::optional<Call> call() const override;
  const std::vector<Written>& written() const override { return outline_.written; }
  std::vector<double> values(const Written& block, const std::vector<int64_t>& elements) override;
  std::vector<std::pair<int64_t, double>> hits(const Written& block, size_t most) override;

  std::vector<int64_t> turns(const Written& block) override;
  std::vector<std::set<int64_t>> marks(const Written& block) override;
  bool bounded(const Written& block) override { return !bounds(block).empty(); }
  std::vector<std::vector<int64_t>> turns_at_bounds(const Written& block, int64_t element) override;
  std::optional<double> term(const Written& block, int64_t element, const std::vector<int64_t>& turn,
                             bool none) override;
  std::optional<std::vector<std::pair<int64_t, double>>> hits_of_turn(const Written& block,
                                                                      const std::vector<int64_t>& turn,
                                                                      size_t most) override;

 private:
  /// Executes until nothing is missing any more, then looks at what came of it. False: undefined. `byte`: whose
  /// decisions are noted.
  template <class Look>
  bool execute(const Written& block, Selection selection, const Look& look, int64_t byte = -1);

  /// The same, of the loops that the block is summed over, for this turn alone; empty: for none. nullopt: turns depend
  /// on each other.
  template <class Look>
  std::optional<bool> execute_turn(const Written& block, Selection selection, const std::vector<int64_t>& turn,
                                   const Look& look, int64_t byte = -1);

  const std::vector<int>& summed_over(const Written& block);
  const std::vector<Affine>& bounds(const Written& block);
  int number_of(const Written& block) const { return int(&block - outline_.written.data()); }

  const Function& function_;
  Frame frame_;
  Outline outline_;
  Code code_;
  std::map<int, std::vector<int>> summed_over_;  ///< by block
  std::map<int, std::vector<Affine>> bounds_;    ///< by block
};

}  // namespace hetsynth::source
