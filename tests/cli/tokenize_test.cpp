// hetsynth tokenize: the commands of docs/tokenizers.md, and what can be wrong with them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "hetsynth/build_paths.h"
#include "tests/cli/command.h"

namespace hetsynth::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string some_text() {
  std::string out;
  for (int i = 0; i < 400; ++i) out += "the quick thing number " + std::to_string(i % 37) + " naïve 日本\n";
  return out;
}

Workplace& with_texts(Workplace& place) {
  std::filesystem::create_directories(place.folder() / "texts/more");
  place.write("texts/a.txt", some_text());
  place.write("texts/more/b.txt", "the end\n");
  return place;
}

void expect_success(const Outcome& outcome) { ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err; }

TEST(Tokenize, TrainsTokenizesTrainsAModelAndDecodes) {
  Workplace place;
  with_texts(place);
  const Outcome trained = place.run("tokenize texts --train-bpe 300 --special '<|endoftext|>' -o tokenizer.json");
  expect_success(trained);
  EXPECT_THAT(trained.out, HasSubstr("tokenizer.json: 300 tokens from "));
  const Outcome written =
      place.run("tokenize texts --tokenizer tokenizer.json --end-of-text '<|endoftext|>' -o tokens.npy");
  expect_success(written);
  EXPECT_THAT(written.out, AllOf(HasSubstr("in 2 files (npy, uint16, by a byte-level BPE of 300 tokens)"),
                                 HasSubstr("tokens per byte, largest id "), HasSubstr("a vocabulary of 300 or more")));
  const Outcome back = place.run("tokenize --decode tokens.npy --tokenizer tokenizer.json");
  expect_success(back);
  EXPECT_EQ(back.out, some_text() + "<|endoftext|>the end\n<|endoftext|>");
  const std::string model = std::string(HETSYNTH_SOURCE_DIR) + "/examples/gpt2.cpp";
  expect_success(place.run("run " + model + " --set size=tiny --set vocabulary=300 --data tokens.npy --steps 3"));
  // The other format of token files.
  expect_success(place.run("tokenize texts/more -t tokenizer.json -o tokens.bin"));
  EXPECT_EQ(place.run("tokenize --decode tokens.bin -t tokenizer.json").out, "the end\n");
}

TEST(Tokenize, ATokenizerThatDoesNotFitTheFileIsToldOf) {
  Workplace place;
  with_texts(place);
  expect_success(place.run("tokenize texts --train-bpe 300 -o large.json"));
  expect_success(place.run("tokenize texts --train-bpe 256 -o small.json"));
  expect_success(place.run("tokenize texts -t large.json -o tokens.npy"));
  EXPECT_THAT(place.run("tokenize --decode tokens.npy -t small.json"),
              Fails(3, AllOf(HasSubstr("tokens.npy: error: [--decode] this token is not one of the tokenizer's"),
                             HasSubstr("expected: 0 to 255"), HasSubstr("at byte "))));
}

/// Training, going on, validating, evaluating and generating with tokens of one tokenizer, under whatever name, and not
/// with those of another.
TEST(Tokenize, TokensOfAnotherTokenizerAreRefused) {
  Workplace place;
  with_texts(place);
  place.write("other.txt", "another text\nanother text, with other words: other words\n");
  expect_success(place.run("tokenize texts --train-bpe 280 -o one.json"));
  expect_success(place.run("tokenize other.txt --train-bpe 270 -o two.json"));
  place.write("again.json", place.read("one.json"));
  for (const std::string file : {"one.npy -t one.json", "again.bin -t again.json", "two.npy -t two.json"})
    expect_success(place.run("tokenize texts -o " + file));
  const std::string model =
      std::string(HETSYNTH_SOURCE_DIR) + "/examples/gpt2.cpp --set size=tiny --set vocabulary=300 --cluster c.toml ";
  const std::string run = "run " + model + "--sample 0 --steps 1 ", resume = run + "--resume c.st --new-data ";
  expect_success(place.run(run + "--data one.npy --valid again.bin --checkpoint c.st"));
  const Outcome shown = place.run("checkpoint c.st");
  EXPECT_THAT(shown.out, HasSubstr("  tokenizer  one.json, byte-level BPE of 280 tokens (fingerprint "));
  EXPECT_THAT(place.run("checkpoint c.st --json").out, HasSubstr("\"tokenizer_fingerprint\": \""));
  const auto refused = [](const std::string& message) {
    return Fails(3,
                 AllOf(HasSubstr("error: [tokenizer] " + message), HasSubstr("expected: one.json, byte-level BPE of"),
                       HasSubstr("found:    two.json, byte-level BPE of"), HasSubstr("--other-tokenizer")));
  };
  const std::string of_checkpoint = "the checkpoint was trained on tokens of another tokenizer than ";
  expect_success(place.run(resume + "--data again.bin --checkpoint again.st"));
  EXPECT_THAT(place.run(resume + "--data two.npy"), refused(of_checkpoint + "the data"));
  expect_success(place.run(resume + "--data two.npy --other-tokenizer --checkpoint two.st"));
  EXPECT_THAT(place.run("checkpoint two.st").out, HasSubstr("  tokenizer  two.json"));
  const std::string start = run + "--init-from c.st ";
  expect_success(place.run(start + "--data again.bin"));
  EXPECT_THAT(place.run(start + "--data two.npy"), refused(of_checkpoint + "the data"));
  expect_success(place.run(start + "--data two.npy --other-tokenizer"));
  EXPECT_THAT(place.run(run + "--data one.npy --valid two.npy"),
              refused("the data of --valid are tokens of another tokenizer than those of --data"));
  expect_success(place.run(run + "--data one.npy --valid two.npy --other-tokenizer"));
  const std::string evaluate = "evaluate " + model + "c.st --data ";
  expect_success(place.run(evaluate + "again.bin"));
  EXPECT_THAT(place.run(evaluate + "two.npy"), refused(of_checkpoint + "the data"));
  expect_success(place.run(evaluate + "two.npy --other-tokenizer"));
  const std::string generate = "generate " + model + "c.st --prompt the --tokens 2 -t ";
  expect_success(place.run(generate + "again.json"));
  EXPECT_THAT(place.run(generate + "two.json"), refused(of_checkpoint + "two.json"));
  EXPECT_THAT(place.run(generate + "bytes"), Fails(3, HasSubstr(of_checkpoint + "the prompt, whose bytes are tokens")));
  expect_success(place.run(generate + "two.json --other-tokenizer"));
  EXPECT_THAT(place.run("tokenize --decode one.npy -t two.json").err,
              HasSubstr("warning: one.npy was made by another tokenizer, one.json"));
}

TEST(Tokenize, BadUse) {
  Workplace place;
  with_texts(place);
  place.write("latin1.txt", "na\xEFve\n");
  expect_success(place.run("tokenize texts --train-bpe 260 -o t.json"));
  EXPECT_THAT(place.run("tokenize texts -o t.npy"), Fails(2, HasSubstr("a tokenizer is missing")));
  EXPECT_THAT(place.run("tokenize -t t.json -o t.npy"), Fails(2, HasSubstr("a text is missing")));
  EXPECT_THAT(place.run("tokenize texts -t t.json"), Fails(2, HasSubstr("the name of the result is missing")));
  EXPECT_THAT(place.run("tokenize texts -t t.json -o tokens"), Fails(2, HasSubstr("ends in .npy")));
  EXPECT_THAT(place.run("tokenize texts --train-bpe 255 -o u.json"), Fails(2, HasSubstr("--train-bpe 256 or more")));
  EXPECT_THAT(place.run("tokenize texts -t texts/a.txt -o t.npy"),
              Fails(3, HasSubstr("this kind of tokenizer is not known")));
  EXPECT_THAT(place.run("tokenize texts -t t.json --end-of-text '<s>' -o t.npy"),
              Fails(3, HasSubstr("[--end-of-text] the tokenizer has no such token")));
  const std::string before = "\x93NUMPY what was there";
  place.write("t.npy", before);
  EXPECT_THAT(place.run("tokenize texts latin1.txt -t t.json -o t.npy"),
              Fails(3, AllOf(HasSubstr("latin1.txt:1: error: [tokenize] the text is no UTF-8"),
                             HasSubstr("byte 0xEF at byte 2 of the file"))));
  place.write("texts.gz", "\x1F\x8B\x08 packed");
  EXPECT_THAT(place.run("tokenize texts texts.gz -t t.json -o t.npy --replace-invalid"),
              Fails(3, AllOf(HasSubstr("texts.gz: error: [tokenize] this is no text"),
                             HasSubstr("a file packed by gzip"), HasSubstr("unpack it (gunzip)"))));
  EXPECT_EQ(place.read("t.npy"), before);
  expect_success(place.run("tokenize texts latin1.txt -t t.json -o t.npy --replace-invalid"));
}

}  // namespace
}  // namespace hetsynth::testing
