// Damage to a generated text, and its judge: what passes the check must do the same when it is run.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tests/source/fixture.h"

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

struct Place {
  size_t at, length;
};
/// Integers of kernels and step, those in comments and strings left out.
std::vector<Place> numbers(const std::string& text);
/// The part of the text behind the helper functions: kernels and step.
size_t own_part(const std::string& text);
std::string line_around(const std::string& text, size_t at);

}  // namespace hetsynth::test
