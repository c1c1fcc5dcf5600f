// Tokenizers of small hand-made vocabularies: ids that were worked out by hand.
#include "runtime/tokenizers/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsl/base/error.h"
#include "runtime/unicode/normalization.h"
#include "tests/tokenizers/files.h"

namespace hetsynth::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::unique_ptr<Tokenizer> read(const TokenizerText& text) {
  return read_tokenizer_json(text.text(), "tokenizer.json");
}

std::string replaced_once(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(ByteLevelBpe, MergesByRank) {
  const auto tokenizer = read(byte_level_text());
  const std::string text = "the the  thing\n日";
  // Of two spaces the word takes the second; "in" is older than "ing", "th" than "the".
  EXPECT_THAT(tokenizer->encode(text), ElementsAre(257, 258, 220, 220, 256, 260, 198, 263));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  EXPECT_THAT(tokenizer->encode(""), IsEmpty());
  EXPECT_EQ(tokenizer->vocabulary(), 264);
  EXPECT_EQ(tokenizer->id_of("Ġthe"), 258);
  EXPECT_EQ(tokenizer->id_of("nothing"), std::nullopt);
  EXPECT_EQ(tokenizer->description(), "byte-level BPE of 264 tokens");
}

TEST(ByteLevelBpe, HasATokenForEveryByte) {
  const auto tokenizer = read(byte_level_text());
  for (char32_t code = 1; code < 0x3000; code += 7) {
    std::string text = "x";
    text += code < 0x80 ? std::string(1, static_cast<char>(code))
            : code < 0x800
                ? std::string{static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))}
                : std::string{static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 63)),
                              static_cast<char>(0x80 | (code & 63))};
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text) << static_cast<uint32_t>(code);
  }
}

TEST(ByteLevelBpe, LongAndShortWordsAreMergedAlike) {
  TokenizerText text = byte_level_text();
  text.pre_tokenizer = replaced_once(text.pre_tokenizer, "\"use_regex\": true", "\"use_regex\": false");
  const auto tokenizer = read(text);
  std::string longer;
  std::vector<int32_t> ids;
  for (int i = 0; i < 40; ++i) {
    longer += "thing the ";
    for (const int32_t id : {256, 260, 258, 220}) ids.push_back(id);
    EXPECT_EQ(tokenizer->encode(longer), ids) << i;
  }
}

TEST(ByteLevelBpe, PutsASpaceBeforeWhereAsked) {
  TokenizerText text = byte_level_text();
  text.pre_tokenizer = replaced_once(text.pre_tokenizer, "\"add_prefix_space\": false", "\"add_prefix_space\": true");
  EXPECT_THAT(read(text)->encode("the"), ElementsAre(258));
  EXPECT_FALSE(read(text)->cuts_at_lines());
  EXPECT_TRUE(read(byte_level_text())->cuts_at_lines());
}

TEST(ByteLevelBpe, AWordThatIsATokenNeedsNoMerges) {
  TokenizerText text = byte_level_text();
  text.model = replaced_once(text.model, "\"ignore_merges\": false", "\"ignore_merges\": true");
  text.model = replaced_once(text.model, "\"th e\", ", "");  // "the" is a token that no merge makes
  EXPECT_THAT(read(text)->encode("the"), ElementsAre(257));
  text.model = replaced_once(text.model, "\"ignore_merges\": true", "\"ignore_merges\": false");
  EXPECT_THAT(read(text)->encode("the"), ElementsAre(256, 68));
}

TEST(AddedTokens, AreFoundBeforeWords) {
  TokenizerText text = byte_level_text();
  text.added = R"([{"id": 264, "content": "<end>", "normalized": false, "special": true},
{"id": 265, "content": "<end>>", "normalized": false}, {"id": 266, "content": "<mask>", "lstrip": true, "rstrip": true}])";
  const auto tokenizer = read(text);
  EXPECT_THAT(tokenizer->encode("the<end>the<end>>"), ElementsAre(257, 264, 257, 265));
  EXPECT_THAT(tokenizer->encode("the \n<mask>  the"), ElementsAre(257, 266, 257));
  EXPECT_EQ(tokenizer->vocabulary(), 267);
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{257, 264, 999}), "the<end>");
  EXPECT_FALSE(tokenizer->cuts_at_lines()) << "<mask> takes the space before it";
}

TEST(Llama2, SpellsSpacesAndUnknownLettersAsBytes) {
  const auto tokenizer = read(llama2_text());
  // "▁ a" goes before "a b"; c is no token.
  EXPECT_THAT(tokenizer->encode("ab c"), ElementsAre(262, 261, 259, 3 + 'c'));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("ab c日")), "ab c日");
  EXPECT_THAT(tokenizer->before_text(), ElementsAre(1));
  EXPECT_THAT(tokenizer->after_text(), IsEmpty());
  EXPECT_THAT(tokenizer->encode("<s>b"), ElementsAre(1, 259, 261));
}

TEST(WordPiece, TakesTheLongestPieces) {
  const auto tokenizer = read(word_piece_text());
  EXPECT_THAT(tokenizer->encode("Unaffable. unx"), ElementsAre(1, 2, 3, 4, 0));
  EXPECT_THAT(tokenizer->encode("un" + std::string(19, 'a')), ElementsAre(0));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("unaffable.")), "unaffable .");
}

TEST(Normalizer, ComesBeforeWords) {
  TokenizerText text = byte_level_text();
  text.normalizer = R"({"type": "Sequence", "normalizers": [{"type": "Lowercase"}, {"type": "NFC"}]})";
  const auto tokenizer = read(text);
  EXPECT_THAT(tokenizer->encode("THE"), ElementsAre(257));
  EXPECT_EQ(tokenizer->encode("e\xCC\x81"), tokenizer->encode("é"));
}

/// As PyPI's tokenizers 0.23 do: letters of Garay and Latin came with Unicode 16, those of Beria Erfe with 17.
TEST(Normalizer, KnowsTheCapitalLettersOfRecentVersionsOfUnicode) {
  EXPECT_EQ(unicode::lower_case("ÀΩ\U00010D50\U00010D65\U00016EB8\U0000A7CB\U0000A7DC\U0000A7DA"),
            "àω\U00010D70\U00010D85\U00016ED3\U00000264\U0000019B\U0000A7DB");
  EXPECT_EQ(unicode::lower_case("\U00010D66\U00016EB9"), "\U00010D66\U00016EB9") << "behind the last of them";
}

TEST(Tokenizer, TextThatIsNoUtf8IsRefused) { EXPECT_THROW(read(byte_level_text())->encode("a\xFF"), UserError); }

}  // namespace
}  // namespace hetsynth::test
