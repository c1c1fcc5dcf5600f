// Text damaged at random: words, numbers and lines dropped, repeated, exchanged, cut off.
#include "tests/source/edited_text.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tests/fuzz/mutate.h"

namespace hetsynth::test {
namespace {

TEST(EditedText, AsGeneratedPasses) { EXPECT_EQ(check_edited_text(text_to_edit()), Verdict::proved); }

TEST(EditedText, IsAnsweredWhateverStandsThere) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::map<Verdict, int> answers;
  for (int n = 0; n < 150; ++n) {
    const std::string text = testing::mutate(text_to_edit(), random);
    SCOPED_TRACE(text);
    EXPECT_NO_THROW(++answers[check_edited_text(text)]);
  }
  // Most damage is an error of the language or a difference; some of it is in comments.
  EXPECT_GT(answers[Verdict::refuted], 10);
  EXPECT_GT(answers[Verdict::unknown] + answers[Verdict::refuted], 75);
}

}  // namespace
}  // namespace hetsynth::test
