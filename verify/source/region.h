// One piece of generated code that reads and writes the arena: a kernel called with given pointers, or a statement of
// the step. What it writes is found exactly from its loops (outline.h); what value a written element gets is found by
// executing the code for that element alone (execution.h).
#pragma once
#include <string>
#include <vector>

#include "verify/source/execution.h"

namespace hetsynth::source {

class Region {
 public:
  /// `frame` holds the values of the variables that are set before the region is entered. Throws NotFollowed, Misstep.
  Region(const Function& function, const Statement& body, Frame frame, const Unit& unit, const Memory& memory);

  const std::string& function_name() const { return function_.name; }

  /// Disjoint blocks.
  const std::vector<Written>& written() const { return outline_.written; }

  /// The values that elements of a block have after the region was executed. NaN: undefined. Throws NotFollowed,
  /// Misstep, TooLong.
  std::vector<double> values(const Written& block, const std::vector<int64_t>& elements);
  /// Elements of a scattered block that the region adds to, with memory as it is, and their values; at most `most`.
  std::vector<std::pair<int64_t, double>> hits(const Written& block, size_t most);

  /// Evaluations so far; `limit` makes TooLong.
  int64_t work = 0;
  int64_t limit = 0;

 private:
  /// Executes until nothing is missing any more, then looks at what came of it. False: undefined.
  template <class Look>
  bool execute(const Written& block, Selection selection, const Look& look);

  int number_of(const Written& block) const { return int(&block - outline_.written.data()); }

  const Function& function_;
  Frame frame_;
  Outline outline_;
  Code code_;
};

}  // namespace hetsynth::source
