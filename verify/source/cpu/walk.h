// Follows the step function of a cpu rank statement by statement.
#pragma once
#include "verify/source/step/arena_contents.h"

namespace hetsynth::source {

class Walk final : public ContentsWalk {
 public:
  /// `numbers`: by instruction, the one that the text calls it by; empty: its own.
  Walk(const Program& reference, const SpmdProgram& program, const RankSource& source, const SourceOptions& options,
       Unit& unit, std::vector<int> numbers = {})
      : ContentsWalk(reference, program, source, options, unit, std::move(numbers)) {}

  void run() override;

 private:
  void declare(const Statement& s) override;
  void loop(const Statement& s) override;
  void turns(const Statement& s);
  void call(const Statement& s) override;
  void checked(const Expression& value, int line) override;
};

}  // namespace hetsynth::source
