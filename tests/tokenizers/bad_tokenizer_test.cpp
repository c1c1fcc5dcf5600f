// What a tokenizer's file can have wrong, or have that is not supported: each is told of with its place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/tokenizers/tokenizer.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/support/error_of.h"
#include "tests/tokenizers/files.h"

namespace hetsynth::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string error_with(const TokenizerText& text) {
  return error_of([&] { read_tokenizer_json(text.text(), "tokenizer.json"); });
}

TokenizerText changed(std::string TokenizerText::*part, const std::string& from, const std::string& to) {
  TokenizerText text = byte_level_text();
  const size_t at = (text.*part).find(from);
  EXPECT_NE(at, std::string::npos) << from;
  (text.*part).replace(at, from.size(), to);
  return text;
}

TokenizerText with(std::string TokenizerText::*part, const std::string& value) {
  TokenizerText text = byte_level_text();
  text.*part = value;
  return text;
}

TEST(BadTokenizer, KindsThatAreNotSupported) {
  EXPECT_THAT(error_with(with(&TokenizerText::normalizer, R"({"type": "Nmt"})")),
              AllOf(HasSubstr("tokenizer.json:3: error: [normalizer.type] this kind of normalizer is not supported"),
                    HasSubstr("NFC, NFD"), HasSubstr("\"Nmt\"")));
  EXPECT_THAT(error_with(with(&TokenizerText::pre_tokenizer, R"({"type": "UnicodeScripts"})")),
              AllOf(HasSubstr("[pre_tokenizer.type]"), HasSubstr("\"UnicodeScripts\"")));
  EXPECT_THAT(error_with(with(&TokenizerText::decoder, R"({"type": "CTC"})")), HasSubstr("[decoder.type]"));
  EXPECT_THAT(error_with(with(&TokenizerText::post_processor, R"({"type": "New"})")),
              HasSubstr("[post_processor.type]"));
  EXPECT_THAT(error_with(with(&TokenizerText::model, R"({"type": "Unigram", "unk_id": 0, "vocab": []})")),
              AllOf(HasSubstr("[model.type] this kind of model is not supported"), HasSubstr("BPE or WordPiece"),
                    HasSubstr("spiece.model")));
}

TEST(BadTokenizer, ExpressionsThatAreNotSupported) {
  const auto split = [](const std::string& expression) {
    return error_with(with(&TokenizerText::pre_tokenizer, R"({"type": "Split", "pattern": {"Regex": ")" + expression +
                                                              R"("}, "behavior": "Isolated", "invert": false})"));
  };
  EXPECT_THAT(split("a(?<=b)c"),
              AllOf(HasSubstr("[pre_tokenizer.pattern.Regex]"), HasSubstr("looking behind is not supported"),
                    HasSubstr("\"(?<=b)c\" at byte 1")));
  EXPECT_THAT(split("(a"), HasSubstr("a bracket is not closed"));
  EXPECT_THAT(split("\\\\p{Han}"), HasSubstr("only general categories"));
  EXPECT_THAT(split("(a*)*"), HasSubstr("an endless repetition of what may be empty"));
  EXPECT_THAT(split("a{1,3}+"), HasSubstr("a + after a count"));
  EXPECT_THAT(split("[a-\\\\x{110000}]"), HasSubstr("the number of a code point"));
  EXPECT_THAT(split("[a&&b]"), HasSubstr("sets of sets"));
}

TEST(BadTokenizer, Models) {
  EXPECT_THAT(
      error_with(changed(&TokenizerText::model, "\"t h\"", "\"t q9\"")),
      AllOf(HasSubstr("[model.merges[0]] a token of this merge is not in the vocabulary"), HasSubstr("\"q9\"")));
  EXPECT_THAT(error_with(changed(&TokenizerText::model, "\"t h\"", "\"th\"")),
              HasSubstr("a merge is two tokens with a space between them"));
  EXPECT_THAT(error_with(changed(&TokenizerText::model, "[\"i\", \"n\"]", "[\"i\"]")),
              HasSubstr("a merge is of two tokens"));
  EXPECT_THAT(error_with(changed(&TokenizerText::model, "\"the\": 257", "\"the\": 256")),
              AllOf(HasSubstr("two tokens have the same id"), HasSubstr("256 a second time")));
  EXPECT_THAT(error_with(changed(&TokenizerText::model, "\"the\": 257", "\"the\": 99999999")),
              HasSubstr("the number is out of range"));
  EXPECT_THAT(error_with(changed(&TokenizerText::model, "\"dropout\": null", "\"dropout\": 0.1")),
              AllOf(HasSubstr("[model.dropout]"), HasSubstr("left out at random")));
  EXPECT_THAT(error_with(changed(&TokenizerText::model, "\"unk_token\": null", "\"unk_token\": \"?!\"")),
              HasSubstr("the unknown token is not in the vocabulary"));
  EXPECT_THAT(error_with(changed(&TokenizerText::model, "\"fuse_unk\"", "\"fuse_unkk\"")),
              AllOf(HasSubstr("unknown member \"fuse_unkk\""), HasSubstr("did you mean \"fuse_unk\"?")));
}

TEST(BadTokenizer, AddedTokens) {
  EXPECT_THAT(
      error_with(with(&TokenizerText::added, R"([{"id": 3, "content": "the"}])")),
      AllOf(HasSubstr("[added_tokens[0].id] the vocabulary has this token under another id"), HasSubstr("257")));
  EXPECT_THAT(error_with(with(&TokenizerText::added, R"([{"id": 300, "content": "x1", "single_word": true}])")),
              HasSubstr("tokens that are whole words are not supported"));
  EXPECT_THAT(error_with(with(&TokenizerText::added, R"([{"id": 300, "content": ""}])")), HasSubstr("is empty"));
  EXPECT_THAT(
      error_with(with(&TokenizerText::added, R"([{"id": 300, "content": "x1"}, {"id": 300, "content": "x2"}])")),
      HasSubstr("two added tokens have the same id"));
}

TEST(BadTokenizer, Files) {
  const hetsynth::testing::TemporaryFolder folder;
  const auto opened = [&](const std::string& name, const std::string& bytes) {
    std::ofstream(folder.path(name), std::ios::binary) << bytes;
    return error_of([&] { open_tokenizer(folder.path(name)); });
  };
  EXPECT_THAT(error_of([&] { open_tokenizer(folder.path("none.json")); }), HasSubstr("none.json"));
  EXPECT_THAT(opened("vocab.bpe", "#version: 0.2\nt h\n"),
              AllOf(HasSubstr("vocab.bpe: error: [tokenizer] this kind of tokenizer is not known"),
                    HasSubstr("a tokenizer.json, or a model of SentencePiece"), HasSubstr("#version: 0.2"),
                    HasSubstr("--train-bpe")));
  EXPECT_THAT(opened("empty.json", ""), HasSubstr("an empty file"));
  EXPECT_THAT(opened("other.json", "{\"a\": 1}"), HasSubstr("this is no tokenizer.json"));
  EXPECT_THAT(opened("cut.json", byte_level_text().text().substr(0, 3000)), HasSubstr("not valid JSON"));
  EXPECT_THAT(opened("cut.model", "\x0A\x0E\x0A\x05<unk>\x15"), HasSubstr("this is no model of SentencePiece"));
}

}  // namespace
}  // namespace hetsynth::test
