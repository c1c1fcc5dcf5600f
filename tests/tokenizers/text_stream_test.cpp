// Tokens that come one by one, as text that is always whole code points.
#include "runtime/tokenizers/text_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "runtime/unicode/utf8.h"
#include "tests/tokenizers/files.h"

namespace hetsynth {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> parts(std::string_view bytes) {
  TextStream stream(nullptr);
  std::vector<std::string> out;
  for (const char byte : bytes) out.push_back(stream.add(static_cast<unsigned char>(byte)));
  out.push_back(stream.end());
  return out;
}

TEST(TextStream, HoldsBytesBackUntilTheyAreWhole) {
  EXPECT_THAT(parts("a\xC3\xA9z"), ElementsAre("a", "", "\xC3\xA9", "z", ""));
  EXPECT_THAT(parts("\xF0\x9F\x91\x8D!"), ElementsAre("", "", "", "\xF0\x9F\x91\x8D", "!", ""));
  const std::string other = "\xEF\xBF\xBD";
  EXPECT_THAT(parts("\xE6\x97"), ElementsAre("", "", other));             // the text ends within a code point
  EXPECT_THAT(parts("\xE6\x97z"), ElementsAre("", "", other + "z", ""));  // it is not gone on with
  EXPECT_THAT(parts("\xFFz\xA9"), ElementsAre(other, "z", other, ""));    // nothing could make these whole
  EXPECT_THAT(parts("\xC3\xC3\xA9"), ElementsAre("", "", other + "\xC3\xA9", ""));
}

TEST(TextStream, BytesThatFurtherOnesMakeWhole) {
  const std::vector<std::pair<std::string, size_t>> cases = {{"", 0},
                                                             {"a", 0},
                                                             {"\xC3", 1},
                                                             {"a\xE6", 1},
                                                             {"a\xE6\x97", 2},
                                                             {"\xE6\x97\xA5", 0},
                                                             {"\xF0\x9F\x91", 3},
                                                             {"\xF0\x9F\x91\x8D", 0},
                                                             {"\xC0", 0},
                                                             {"\xF5", 0},
                                                             {"\xA9", 0},
                                                             {"\xE0\x80", 0},
                                                             {"\xED\xA0", 0},
                                                             {"\xA9\xA9\xA9\xA9", 0}};
  for (const auto& [text, bytes] : cases)
    EXPECT_EQ(unicode::unfinished_bytes(text), bytes) << testing::PrintToString(text);
}

/// What comes piece by piece is together what the tokenizer decodes at once: of tokens at random, of which most bytes
/// are no UTF-8, and of those of a text.
TEST(TextStream, GivesWhatTheTokenizerDecodes) {
  std::mt19937 random(5);
  for (const test::TokenizerText& kind : {test::byte_level_text(), test::llama2_text(), test::word_piece_text()}) {
    const std::unique_ptr<Tokenizer> tokenizer = read_tokenizer_json(kind.text(), "t.json");
    for (int round = 0; round < 200; ++round) {
      std::vector<int32_t> ids = tokenizer->encode("the thing \xE6\x97\xA5\xE6\x9C\xAC unaffable. ab \xF0\x9F\x91\x8D");
      if (round > 0)
        for (int32_t& id : ids) id = static_cast<int32_t>(random() % static_cast<uint64_t>(tokenizer->vocabulary()));
      TextStream stream(tokenizer.get());
      std::string streamed;
      for (const int32_t id : ids) {
        const std::string part = stream.add(id);
        EXPECT_EQ(unicode::first_invalid(part), std::string::npos);
        streamed += part;
      }
      streamed += stream.end();
      EXPECT_EQ(streamed, unicode::with_replacements(tokenizer->decode(ids))) << testing::PrintToString(ids);
    }
  }
}

}  // namespace
}  // namespace hetsynth
