#include "tests/source/damage.h"

#include <gtest/gtest.h>

#include "tests/support/damage/one_step.h"

namespace hetsynth::test {
namespace {

/// Bounds are met and not; labels are ignored and not.
const std::vector<OneStep> steps = {{3, 0.5, 256}, {100, 10, 4}, {150, 0.05, 4, /*all_classes=*/false}};

std::vector<std::string> executed(const Generated& g, const std::string& text) {
  std::vector<std::string> out;
  for (const std::vector<float>& values : run_one_step(g.reference, g.devices[0], text, steps))
    out.emplace_back(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return out;
}

}  // namespace

const std::string& text_of(const Generated& g, int rank) { return g.devices[size_t(rank)].files.front().text; }

void Damage::inflict(const std::string& text, const std::string& what) {
  const SourceCheck result = check(g_, 0, text);
  ++verdicts[result.verdict];
  if (result.verdict != Verdict::proved) return;
  if (expected_.empty()) expected_ = executed(g_, text_of(g_, 0));
  EXPECT_TRUE(executed(g_, text) == expected_) << "passed, but computes something else: " << what;
}

}  // namespace hetsynth::test
