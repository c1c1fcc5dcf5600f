// Damage to a generated text, and its judge: what passes the check must do the same when it is run.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tests/source/fixture.h"
#include "tests/support/damage/source_edits.h"

namespace hetsynth::test {

const std::string& text_of(const Generated& g, int rank);

/// Counts verdicts of damaged texts of a program on one cpu device.
class Damage {
 public:
  /// `g` must outlive this.
  explicit Damage(const Generated& g) : g_(g) {}
  /// A test failure if the text passes and leaves other bytes than the undamaged one, in steps and from values in which
  /// bounds are met and not.
  void inflict(const std::string& text, const std::string& what);
  std::map<Verdict, int> verdicts;

 private:
  const Generated& g_;
  std::vector<std::string> expected_;
};

}  // namespace hetsynth::test
