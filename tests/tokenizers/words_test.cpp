// Where words end: by the functions for well-known patterns and by the expressions that they stand for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "runtime/unicode/categories.h"
#include "runtime/unicode/regular_expression.h"
#include "runtime/unicode/utf8.h"
#include "runtime/unicode/word_patterns.h"

namespace hetsynth::unicode {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> words(std::string_view expression, std::string_view text) {
  const auto pattern = word_pattern(expression);
  EXPECT_TRUE(pattern);
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = pattern->end_of_word(text, at, false);
    out.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

std::vector<std::string> matches(const RegularExpression& expression, std::string_view text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const auto match = expression.find(text, at);
    if (!match || match->second == match->first) break;
    out.emplace_back(text.substr(match->first, match->second - match->first));
    at = match->second;
  }
  return out;
}

TEST(WordPatterns, Gpt2) {
  EXPECT_THAT(words(gpt2_expression, "I'll  be\n\n there, 12345!"),
              ElementsAre("I", "'ll", " ", " be", "\n\n", " there", ",", " 12345", "!"));
  EXPECT_THAT(words(gpt2_expression, "IT'S"), ElementsAre("IT", "'", "S"));
}

TEST(WordPatterns, Llama3) {
  EXPECT_THAT(words(llama3_expression, "IT'S\t(x)\n\n 12345  \n end"),
              ElementsAre("IT", "'S", "\t", "(x", ")\n\n", " ", "123", "45", "  \n", " end"));
}

/// Every pattern's function and its expression agree on random texts of signs that matter to it.
TEST(WordPatterns, AgreeWithTheirExpressions) {
  const std::vector<std::string> signs = {
      "'",  "s", "S", "t", "re",   "VE",      "ll", "d",  "ſ",        " ",      "  ",     "\n", "\r\n", "\t",     "1",
      "23", "٣", "½", "é", "日本", "e\u0301", "!",  "?.", "👍🏽", "\u00a0", "\u3000", "_",  "<|",   "\u200d", "ı"};
  const std::string space_end = R"(|\s+\z|\s*[\r\n]|\s+(?!\S)|\s)";
  const std::string llama3(llama3_expression),
      cl100k =
          R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)";
  std::string qwen2 = llama3;
  qwen2.replace(qwen2.find("{1,3}"), 5, "");
  const std::vector<std::pair<std::string, std::string>> pairs = {
      {std::string(gpt2_expression), std::string(gpt2_expression)},
      {llama3, llama3},
      {qwen2, qwen2},
      {cl100k,
       R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+)" + space_end}};
  std::mt19937_64 random(20261128);
  for (const auto& [name, expression] : pairs) {
    const RegularExpression compiled(expression);
    for (int i = 0; i < 5000; ++i) {
      std::string text;
      for (uint64_t left = 1 + random() % 14; left > 0; --left) text += signs[random() % signs.size()];
      ASSERT_EQ(words(name, text), matches(compiled, text)) << expression << "\n" << text;
    }
  }
}

TEST(WordPatterns, APartThatGoesOnEndsAsTheWholeDoes) {
  const auto pattern = word_pattern(gpt2_expression);
  EXPECT_EQ(pattern->end_of_word("\n\n", 0, false), 2u);
  EXPECT_EQ(pattern->end_of_word("\n\nx", 0, false), 1u);
  EXPECT_EQ(pattern->end_of_word("\n\n", 0, true), 1u);
}

TEST(RegularExpression, TriesAlternativesInOrder) {
  EXPECT_EQ(RegularExpression("a|ab").find("xab", 0), (std::pair<size_t, size_t>{1, 2}));
  EXPECT_EQ(RegularExpression("(?:ab|a)c").find("ac", 0), (std::pair<size_t, size_t>{0, 2}));
  EXPECT_EQ(RegularExpression("a+?b?").find("aab", 0), (std::pair<size_t, size_t>{0, 1}));
  EXPECT_EQ(RegularExpression("a++a").find("aaa", 0), std::nullopt);
  EXPECT_EQ(RegularExpression("(?>a|ab)c").find("abc", 0), std::nullopt);
  EXPECT_EQ(RegularExpression("a{2,3}").find("aaaa", 0), (std::pair<size_t, size_t>{0, 3}));
  EXPECT_EQ(RegularExpression("[^a-c\\d]").find("a1é", 0), (std::pair<size_t, size_t>{2, 4}));
  EXPECT_EQ(RegularExpression("x(?=y)").find("xxy", 0), (std::pair<size_t, size_t>{1, 2}));
  EXPECT_EQ(RegularExpression("(?i:K)").find("\u212A", 0), (std::pair<size_t, size_t>{0, 3}));
  EXPECT_EQ(RegularExpression("\\P{L}").find("aé1", 0), (std::pair<size_t, size_t>{3, 4}));
}

TEST(Utf8, IsChecked) {
  EXPECT_EQ(first_invalid("abc日👍"), std::string_view::npos);
  EXPECT_EQ(first_invalid("abcdefghij\x80"), 10u);
  EXPECT_EQ(first_invalid("a\xC0\x80"), 1u);          // overlong
  EXPECT_EQ(first_invalid("a\xED\xA0\x80"), 1u);      // a surrogate
  EXPECT_EQ(first_invalid("a\xF4\x90\x80\x80"), 1u);  // beyond U+10FFFF
  EXPECT_EQ(first_invalid("a\xE6\x97"), 1u);          // cut short
  // The Unicode Standard, table 3-8.
  EXPECT_EQ(with_replacements("a\xF1\x80\x80\xE1\x80\xC2"
                              "b\x80"
                              "c\x80\xBF"
                              "d"),
            "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
}

TEST(Categories, AreThoseOfUnicode16) {
  EXPECT_EQ(category(U'A'), Category::Lu);
  EXPECT_EQ(category(0x10D50), Category::Lu);  // Garay came with Unicode 16
  EXPECT_EQ(category(0x10FFFF), Category::Cn);
  int letters = 0, numbers = 0;
  for (char32_t code = 0; code < 0x110000; ++code) {
    letters += is_letter(code);
    numbers += is_number(code);
  }
  EXPECT_EQ(letters, 141028);
  EXPECT_EQ(numbers, 1911);
}

}  // namespace
}  // namespace hetsynth::unicode
