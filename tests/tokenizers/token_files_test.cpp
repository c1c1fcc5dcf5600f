// Text files become token files, in parallel, whole or not at all; and tokenizers are trained on them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <filesystem>
#include <random>

#include "dsl/base/npy_header.h"
#include "runtime/token_files/token_origin.h"
#include "runtime/token_files/tokenize_files.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/support/error_of.h"
#include "tests/tokenizers/files.h"

namespace hetsynth::test {
namespace {

using hetsynth::testing::TemporaryFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void put(const TemporaryFolder& folder, const std::string& name, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(folder.path(name)).parent_path());
  std::ofstream(folder.path(name), std::ios::binary) << text;
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The tokens of an .npy file of 16-bit numbers.
std::vector<int32_t> tokens_of(const std::string& path, size_t header_bytes = 128) {
  const std::string bytes = bytes_of(path);
  std::vector<int32_t> out;
  for (size_t at = header_bytes; at + 1 < bytes.size(); at += 2) {
    uint16_t token;
    std::memcpy(&token, bytes.data() + at, sizeof token);
    out.push_back(token);
  }
  return out;
}

std::string random_text(size_t parts, uint64_t seed) {
  const std::vector<std::string> words = {"the", " thing", "\n",  "\n\n", "  ", "日本",
                                          "x",   "\r\n",   " 12", "\n　", "\t", "é\n"};
  std::mt19937_64 random(seed);
  std::string out;
  for (size_t i = 0; i < parts; ++i) out += words[random() % words.size()];
  return out;
}

TEST(TextBlocks, AreCutWhereTokensDoNotChange) {
  const TemporaryFolder folder;
  const auto tokenizer = read_tokenizer_json(byte_level_text().text(), "tokenizer.json");
  const std::string text = random_text(4000, 7);
  put(folder, "text", text);
  TextBlocks blocks(text_files({folder.path("text")}), {.cut_at_lines = true, .bytes = 100});
  const auto encoder = tokenizer->encoder();
  std::vector<int32_t> ids;
  std::string together;
  int count = 0;
  while (auto raw = blocks.next()) {
    const TextBlock block = blocks.checked(std::move(*raw), false);
    EXPECT_EQ(block.first, count++ == 0);
    encoder->encode(block.text, block.first, !block.last, ids);
    together += block.text;
  }
  EXPECT_GT(count, 50);
  EXPECT_EQ(together, text);
  EXPECT_EQ(ids, tokenizer->encode(text));
}

TEST(TokenizeFiles, WritesFilesInOrder) {
  const TemporaryFolder folder;
  put(folder, "in/b", "the");
  put(folder, "in/a/z", "日");
  put(folder, "in/empty", "");
  put(folder, "in/c", random_text(600000, 3));  // several blocks
  const auto tokenizer = read_tokenizer_json(byte_level_text().text(), "tokenizer.json");
  std::vector<int32_t> expected{263, 0, 257, 0};
  for (const int32_t id : tokenizer->encode(bytes_of(folder.path("in/c")))) expected.push_back(id);
  expected.push_back(0);
  for (const int threads : {1, 3}) {
    TokenFileWriter writer(folder.path("out.npy"), tokenizer->vocabulary());
    const TokenizeResult result =
        tokenize_files(*tokenizer, text_files({folder.path("in")}), writer, {.threads = threads, .end_of_text = 0});
    writer.place();
    EXPECT_EQ(result.files, 3);
    EXPECT_EQ(result.tokens, static_cast<int64_t>(expected.size()));
    EXPECT_EQ(result.largest, 263);
    EXPECT_EQ(tokens_of(folder.path("out.npy")), expected);
  }
}

TEST(TokenizeFiles, TextThatIsNoUtf8IsToldOfWithItsPlace) {
  const TemporaryFolder folder;
  put(folder, "text",
      "one\ntwo\nthr\xE9"
      "e\n");
  const auto tokenizer = read_tokenizer_json(byte_level_text().text(), "tokenizer.json");
  TokenFileWriter writer(folder.path("out.npy"), tokenizer->vocabulary());
  const std::string error =
      error_of([&] { tokenize_files(*tokenizer, text_files({folder.path("text")}), writer, {}); });
  EXPECT_THAT(error,
              AllOf(HasSubstr("text:3: error: [tokenize] the text is no UTF-8"), HasSubstr("expected: text in UTF-8"),
                    HasSubstr("byte 0xE9 at byte 11 of the file"), HasSubstr("iconv"), HasSubstr("--replace-invalid")));
  const TokenizeResult result =
      tokenize_files(*tokenizer, text_files({folder.path("text")}), writer, {.replace_invalid = true});
  EXPECT_GT(result.tokens, 0);
}

TEST(TokenizeFiles, MissingAndEmptyTextIsRefused) {
  const TemporaryFolder folder;
  put(folder, "empty", "");
  EXPECT_THAT(error_of([&] { text_files({folder.path("none")}); }), HasSubstr("no such file or folder"));
  EXPECT_THAT(error_of([&] { text_files({folder.path()}); }), HasSubstr("there is no text to tokenize"));
  EXPECT_THAT(error_of([&] { TokenFileWriter(folder.path("tokens"), 10); }),
              AllOf(HasSubstr("ends in .npy (NumPy) or .bin (llm.c)"), HasSubstr("tokens.npy")));
}

TEST(TokenizeFilesDeath, KilledInTheMiddleLeavesTheOldFileWhole) {
  const TemporaryFolder folder;
  put(folder, "text", random_text(300000, 5));
  put(folder, "out.npy", "what was there before");
  const auto tokenizer = read_tokenizer_json(byte_level_text().text(), "tokenizer.json");
  for (const int number : {SIGKILL, SIGINT}) {
    EXPECT_EXIT(
        {
          ::signal(SIGINT, SIG_DFL);
          TokenFileWriter writer(folder.path("out.npy"), tokenizer->vocabulary());
          TokenizeOptions options;
          options.progress = [&](int64_t, int64_t, int64_t) { ::raise(number); };
          tokenize_files(*tokenizer, text_files({folder.path("text")}), writer, options);
        },
        ::testing::KilledBySignal(number), "");
    EXPECT_EQ(bytes_of(folder.path("out.npy")), "what was there before");
  }
  // The next writer removes what the killed ones left.
  TokenFileWriter writer(folder.path("out.npy"), tokenizer->vocabulary());
  tokenize_files(*tokenizer, text_files({folder.path("text")}), writer, {});
  writer.place();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2);
  EXPECT_EQ(tokens_of(folder.path("out.npy")), tokenizer->encode(bytes_of(folder.path("text"))));
}

TEST(TokenOrigin, TellsTokenizersApartByWhatTheyDo) {
  const auto made_by = [](const TokenizerText& file, const std::string& name = "t.json") {
    return origin_of(*read_tokenizer_json(file.text(), name), "some/folder/" + name);
  };
  const TokenOrigin one = made_by(byte_level_text());
  EXPECT_THAT(one.name, AllOf(::testing::StartsWith("t.json, "), HasSubstr("BPE of ")));
  EXPECT_EQ(one.fingerprint, made_by(byte_level_text(), "other.json").fingerprint) << "the file is another";
  TokenizerText more = byte_level_text();
  more.added = R"([{"id": 0, "content": "<|end|>", "special": true, "normalized": false}])";
  EXPECT_NE(one.fingerprint, made_by(more).fingerprint) << "a token is spelled otherwise";
  TokenizerText lower = byte_level_text();
  lower.normalizer = R"({"type": "Lowercase"})";
  EXPECT_NE(one.fingerprint, made_by(lower).fingerprint) << "it makes other tokens of a text";
  EXPECT_NE(one.fingerprint, origin_of_bytes().fingerprint);
  EXPECT_TRUE(made_by(word_piece_text()).known());
  EXPECT_NE(made_by(llama2_text()).fingerprint, made_by(word_piece_text()).fingerprint);
}

TEST(TokenOrigin, IsALineOfPrintableSignsAndBack) {
  const TokenOrigin origin{"t.json, BPE of 9 tokens", "0123456789abcdef"};
  EXPECT_EQ(header_line(origin), "tokenizer 0123456789abcdef t.json, BPE of 9 tokens");
  EXPECT_EQ(origin_in(header_line(origin)), origin);
  EXPECT_EQ(header_line({}), "");
  const TokenOrigin odd = origin_in(header_line({"\n\xE9" + std::string(300, 'x'), origin.fingerprint}));
  EXPECT_EQ(odd, (TokenOrigin{"??" + std::string(98, 'x'), origin.fingerprint}));
  for (const char* other : {"", "tokenizer", "tokenizer ", "tokenizer 0123456789abcdef", "tokenizer 0123456789ABCDEF a",
                            "tokenizer 0123 a", "anything"})
    EXPECT_FALSE(origin_in(other).known()) << other;
}

TEST(TokenOrigin, OfAnotherTokenizerIsToldOfIfBothAreKnown) {
  const TokenOrigin a{"a.json", "000000000000000a"}, b{"b.json", "000000000000000b"}, again{"c.json", a.fingerprint};
  const auto said = [](const TokenOrigin& expected, const TokenOrigin& found) {
    return error_of([&] { check_same_origin("file", "tokens of another", expected, found, "take that one"); });
  };
  EXPECT_EQ(said(a, again), "no error");
  EXPECT_EQ(said({}, b), "no error");
  EXPECT_EQ(said(a, {}), "no error");
  EXPECT_THAT(said(a, b),
              AllOf(HasSubstr("file: error: [tokenizer] tokens of another"),
                    HasSubstr("expected: a.json (fingerprint 000000000000000a)"),
                    HasSubstr("found:    b.json (fingerprint 000000000000000b)"), HasSubstr("take that one")));
}

TEST(TokenFile, SaysWhichTokenizerMadeIt) {
  const TemporaryFolder folder;
  const TokenOrigin origin{"t.json, BPE of 9 tokens", "0123456789abcdef"};
  for (const std::string name : {"t.npy", "t.bin"}) {
    TokenFileWriter writer(folder.path(name), 100, origin);
    writer.write(std::vector<int32_t>{1, 2, 3});
    writer.place();
    EXPECT_THAT(bytes_of(folder.path(name)), HasSubstr(header_line(origin))) << name;
  }
  EXPECT_EQ(bytes_of(folder.path("t.npy")).size(), 256u + 6);
  EXPECT_EQ(bytes_of(folder.path("t.bin")).size(), 1024u + 6);
  EXPECT_EQ(read_npy_header(DataFile(folder.path("t.npy"))).comment, header_line(origin));
  EXPECT_EQ(tokens_of(folder.path("t.npy"), 256), (std::vector<int32_t>{1, 2, 3}));
}

TEST(TokenFile, WidthAndFormatFollowVocabularyAndName) {
  const TemporaryFolder folder;
  const std::vector<int32_t> tokens{1, 65535, 70000};
  TokenFileWriter wide(folder.path("wide.bin"), 128256);
  wide.write(tokens);
  wide.place();
  const std::string bytes = bytes_of(folder.path("wide.bin"));
  EXPECT_EQ(bytes.size(), 1024u + 12);
  uint32_t header[3], last;
  std::memcpy(header, bytes.data(), sizeof header);
  std::memcpy(&last, bytes.data() + 1024 + 8, sizeof last);
  EXPECT_THAT(header, ElementsAre(20240801u, 7u, 3u));
  EXPECT_EQ(last, 70000u);
  TokenFileWriter narrow(folder.path("narrow.npy"), 65536);
  narrow.write(std::span(tokens).first(2));
  narrow.place();
  EXPECT_THAT(bytes_of(folder.path("narrow.npy")),
              HasSubstr("{'descr': '<u2', 'fortran_order': False, 'shape': (2,), }"));
  EXPECT_THAT(tokens_of(folder.path("narrow.npy")), ElementsAre(1, 65535));
}

TEST(BpeTraining, MergesTheMostFrequentPairs) {
  // "hug" 10, "pug" 5, "pun" 12, "bun" 4, "hugs" 5: the example of the Hugging Face course, chapter 6.
  const WordCounts counts = {{"hug", 10}, {"pug", 5}, {"pun", 12}, {"bun", 4}, {"hugs", 5}};
  const TrainedBpe trained = train_bpe(counts, {.vocabulary = 260, .special = {"<end>"}});
  using Merge = std::pair<std::string, std::string>;
  EXPECT_THAT(trained.merges, ElementsAre(Merge{"u", "g"}, Merge{"u", "n"}, Merge{"h", "ug"}));
  const auto tokenizer = read_tokenizer_json(tokenizer_json(trained, unicode::gpt2_expression), "trained.json");
  EXPECT_EQ(tokenizer->vocabulary(), 260);
  EXPECT_THAT(tokenizer->encode("hugs<end>"), ElementsAre(259, 1 + 's' - '!', 0));
}

TEST(BpeTraining, EndsWhereNoPairStandsTwice) {
  const TrainedBpe trained = train_bpe({{"abab", 1}, {"xy", 1}}, {.vocabulary = 1000});
  EXPECT_EQ(trained.tokens.size(), 257u);  // "ab"; "abab" stands once
}

TEST(BpeTraining, DoesNotDependOnThreads) {
  const TemporaryFolder folder;
  put(folder, "text", random_text(900000, 11));
  const auto pattern = unicode::word_pattern(unicode::llama3_expression);
  std::vector<std::string> written;
  for (const int threads : {1, 4}) {
    const WordCounts counts = count_words_of_files(*pattern, text_files({folder.path("text")}), {.threads = threads});
    written.push_back(tokenizer_json(train_bpe(counts, {.vocabulary = 300}), unicode::llama3_expression));
  }
  EXPECT_EQ(written[0], written[1]);
}

}  // namespace
}  // namespace hetsynth::test
