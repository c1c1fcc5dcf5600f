// Text damaged at random: words, numbers and lines dropped, repeated, exchanged, cut off.
#include "tests/source/edited_text.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <regex>

#include "tests/fuzz/mutate.h"

namespace hetsynth::test {
namespace {

TEST(EditedText, AsGeneratedPasses) {
  for (const std::string& text : texts_to_edit()) EXPECT_EQ(check_edited_text(text), Verdict::proved) << text;
}

TEST(EditedText, NumbersOfMoreThan64BitsAreAnswered) {
  static const std::regex number(R"([+*] ([0-9]+))");
  for (const std::string& text : texts_to_edit()) {
    std::map<Verdict, int> answers;
    for (const std::string large : {"9223372036854775807", "9223372036854775808", "3074457345618258603"})
      for (std::sregex_iterator at(text.begin(), text.end(), number), end; at != end; ++at) {
        const std::string one = std::string(text).replace(size_t(at->position(1)), size_t(at->length(1)), large);
        SCOPED_TRACE(one);
        EXPECT_NO_THROW(++answers[check_edited_text(one)]);
      }
    EXPECT_GT(answers[Verdict::unknown] + answers[Verdict::refuted], 10) << text;
  }
}

/// Right with 64 bits, as `long` would have, and wrong with the 32 that the text's `int` has.
TEST(EditedText, IntegersThatOverflowTheirTypeAreRefuted) {
  const std::string& kernels = texts_to_edit().back();
  const auto with_index = [&](const std::string& index) {
    return check_edited_text(std::regex_replace(kernels, std::regex("= row / 5;"), "= " + index + ";"));
  };
  EXPECT_EQ(with_index("row * 100 / 500"), Verdict::proved);
  EXPECT_EQ(with_index("row * 1000000000 / 1000000000 / 5"), Verdict::refuted);
  EXPECT_EQ(with_index("row * 1000000000l / 5000000000l"), Verdict::proved);
}

TEST(EditedText, IsAnsweredWhateverStandsThere) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::map<Verdict, int> answers;
  for (size_t n = 0; n < 150; ++n) {
    const std::string text = testing::mutate(texts_to_edit()[n % texts_to_edit().size()], random);
    SCOPED_TRACE(text);
    EXPECT_NO_THROW(++answers[check_edited_text(text)]);
  }
  // Most damage is an error of the language or a difference; some of it is in comments.
  EXPECT_GT(answers[Verdict::refuted], 10);
  EXPECT_GT(answers[Verdict::unknown] + answers[Verdict::refuted], 75);
}

}  // namespace
}  // namespace hetsynth::test
