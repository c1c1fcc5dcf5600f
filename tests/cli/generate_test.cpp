// hetsynth generate: the same text whether whole windows are read or keys and values remembered, on one device, on
// three unequal ones and in three processes; and what can be wrong with the command.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "tests/cli/command.h"

namespace hetsynth::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// A block of attention over bytes, with dropout.
const char* const text_model = R"(#include "hetsynth/hetsynth.h"
using namespace hetsynth;

void model() {
  int64_t batch = option("batch", 8, "samples per step");
  auto [tokens, targets] = text_batch(batch, 8);
  Tensor table = parameter("table", {256, 12}, normal(0.3));
  Tensor x = dropout(embedding(table, tokens) + parameter("places", {8, 12}, normal(0.3)), 0.05);
  auto heads = [&](const char* name) { return einsum("btc,chd->bthd", x, parameter(name, {12, 3, 4}, normal(0.3))); };
  Tensor mixed = attention(heads("q"), heads("k"), heads("v"), {.causal = true});
  x = x + einsum("bthd,hdc->btc", mixed, parameter("o", {3, 4, 12}, normal(0.3)));
  Tensor logits = matmul(x, parameter("head", {12, 256}, normal(0.1)));
  output("logits", logits);
  minimize(cross_entropy(logits, targets), AdamW{.learning_rate = 0.03});
}
)";

const char* const one_device = R"([[host]]
name = "here"
[[host.device]]
name = "core"
kind = "cpu"
memory = "1 GiB"
declared = { matmul = "40 GFLOP/s", memory_bandwidth = "10 GB/s" }
)";

/// The small cluster and one device more.
const char* const third_device = R"([[host.device]]
name = "third"
kind = "cpu"
memory = "1 GiB"
declared = { matmul = "40 GFLOP/s", memory_bandwidth = "10 GB/s" }
)";

/// Trained once for all tests: after "abcdefg" comes "abcdefg".
class Generate : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    place = std::make_unique<Workplace>();
    place->write("model.cpp", text_model);
    place->write("three.toml", std::string(small_cluster) + third_device);
    std::string text;
    for (int i = 0; i < 3000; ++i) text += char('a' + i % 7);
    place->write("text.txt", text);
    const Outcome trained =
        place->run("run model.cpp --cluster c.toml --sample 0 --data text.txt --steps 120 --checkpoint a.st");
    ASSERT_EQ(trained.code, 0) << trained.out << trained.err;
  }
  static void TearDownTestSuite() { place.reset(); }

  static Outcome generate(const std::string& options, const std::string& launcher = "") {
    return place->run("generate model.cpp a.st " + options, launcher);
  }
  static std::string text_of(const std::string& options, const std::string& launcher = "") {
    const Outcome ran = generate(options, launcher);
    EXPECT_EQ(ran.code, 0) << options << ran.err;
    return ran.out;
  }
  static std::unique_ptr<Workplace> place;
};
std::unique_ptr<Workplace> Generate::place;

TEST_F(Generate, ContinuesAText) {
  const Outcome ran = generate("--prompt cde --tokens 20 --temperature 0");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, "cdefgabcdefgabcdefgabcd\n");
  EXPECT_THAT(ran.err, AllOf(HasSubstr("a token predicted; "), HasSubstr("20 tokens in "), HasSubstr(" tokens/s)"),
                             HasSubstr("after a prompt of 3"), Not(HasSubstr("whole windows"))));
  const nlohmann::json report = nlohmann::json::parse(text_of("--prompt cde --tokens 4 --temperature 0 --json"));
  EXPECT_EQ(report.at("text"), "fgab");
  EXPECT_EQ(report.at("tokens"), (std::vector<int>{'f', 'g', 'a', 'b'}));
  EXPECT_EQ(report.at("prompt_tokens"), (std::vector<int>{'c', 'd', 'e'}));
  EXPECT_EQ(report.at("whole_windows"), false);
  EXPECT_EQ(report.at("complete"), true);
}

TEST_F(Generate, TheSameTextOnAnyPlanRememberedOrReadAnew) {
  // Hot: the text goes beyond what was learned, and beyond the window several times.
  const std::string hot = "--prompt abc --tokens 30 --temperature 4 --top-k 60 --top-p 0.97 ",
                    drawn = hot + "--seed 4 ";
  const std::string pinned = "--cluster three.toml --ratio 3,1,2 ";
  const std::string expected = text_of(drawn);
  EXPECT_EQ(text_of(drawn + "--whole-windows"), expected);
  const Outcome three = generate(drawn + pinned);
  EXPECT_EQ(three.out, expected) << three.err;
  EXPECT_THAT(three.err, HasSubstr("3 devices, "));
  EXPECT_EQ(text_of(drawn + pinned + "--whole-windows"), expected);
  EXPECT_EQ(text_of(drawn + pinned, mpirun(3)), expected);
  EXPECT_NE(text_of(hot + "--seed 5"), expected);
}

TEST_F(Generate, TheSameTextFromAPromptThatIsReadInBlocks) {
  // The window of 8 goes on with its last half several times, which is read in blocks, too.
  const std::string drawn = "--prompt abcdefgabc --tokens 30 --temperature 4 --top-k 60 --top-p 0.97 --seed 4 ";
  const std::string pinned = "--cluster three.toml --ratio 3,1,2 ";
  const std::string expected = text_of(drawn + "--whole-windows");
  for (const char* block : {"1", "2", "4", "8"})
    EXPECT_EQ(text_of(drawn + "--prompt-block " + block), expected) << block;
  EXPECT_EQ(text_of(drawn + pinned + "--prompt-block 4"), expected);
  EXPECT_EQ(text_of(drawn + pinned + "--prompt-block 2", mpirun(3)), expected);
  // What is faster, as planned, is done if nothing is said: a second program for a prompt of 3 is not made.
  const nlohmann::json asked = nlohmann::json::parse(text_of("--prompt abc --tokens 2 --prompt-block 4 --json"));
  EXPECT_EQ(asked.at("prompt_block"), 4);
  EXPECT_EQ(nlohmann::json::parse(text_of("--prompt abc --tokens 2 --json")).at("prompt_block"), 1);
  EXPECT_EQ(nlohmann::json::parse(text_of("--prompt abc --tokens 100000000 --end-of-text d --json")).at("prompt_block"),
            8);
}

/// Parameters of 1.7 MiB, and clusters with room for them once.
class TightMemory : public Generate {
 protected:
  static void SetUpTestSuite() {
    Generate::SetUpTestSuite();
    place->write("wide.cpp", everywhere(text_model, "12", "768"));
    place->write("roomy.toml", one_device);
    place->write("tight.toml", everywhere(one_device, "1 GiB", "2 MiB"));
    place->write("two.toml", everywhere(small_cluster, "1 GiB", "1.3 MiB"));
    const Outcome trained =
        place->run("run wide.cpp --cluster roomy.toml --steps 1 --sample 0 --data text.txt --checkpoint w.st");
    ASSERT_EQ(trained.code, 0) << trained.err;
  }
  static Outcome wide(const std::string& options, const std::string& launcher = "") {
    return place->run("generate wide.cpp w.st --prompt abcdefg --tokens 9 --cluster " + options, launcher);
  }
};

TEST_F(TightMemory, HoldsTheParametersOnceForBothProgramsOfAProcess) {
  const Outcome tight = wide("tight.toml --prompt-block 4 --json"), roomy = wide("roomy.toml --prompt-block 1 --json");
  ASSERT_EQ(tight.code, 0) << tight.err;
  EXPECT_THAT(tight.err, Not(HasSubstr("token by token")));
  const nlohmann::json found = nlohmann::json::parse(tight.out), expected = nlohmann::json::parse(roomy.out);
  EXPECT_EQ(found.at("prompt_block"), 4);
  EXPECT_EQ(found.at("tokens"), expected.at("tokens"));
}

TEST_F(TightMemory, OfSeveralProcessesHasAPromptReadTokenByToken) {
  if (std::system("command -v mpirun > /dev/null") != 0) GTEST_SKIP() << "there is no mpirun here";
  const Outcome tight = wide("two.toml --prompt-block 4", mpirun(2)), roomy = wide("roomy.toml --prompt-block 1");
  ASSERT_EQ(tight.code, 0) << tight.err;
  EXPECT_EQ(tight.out, roomy.out);
  EXPECT_THAT(tight.err, HasSubstr("the prompt is read token by token: the memories of all 2 devices together are"));
}

TEST_F(Generate, ReadsStandardInputAndEndsAtAToken) {
  EXPECT_EQ(text_of("--prompt - --tokens 50 --temperature 0 --end-of-text a", "sh -c 'printf bcd | \"$0\" \"$@\"'"),
            "bcdefga\n");
  const Outcome cut = generate("--prompt abcdefgabcd --tokens 3 --temperature 0");
  EXPECT_EQ(cut.out, "abcdefgabcdefg\n");
  EXPECT_THAT(cut.err, HasSubstr("the prompt has 11 tokens, the model's window 8: the last 8 are read"));
}

TEST_F(Generate, WritesAFileWhenItIsDone) {
  place->write("out.txt", "what was there");
  const std::string endless = "--prompt abc --temperature 0 -o out.txt --tokens 100000000 ";
  // A signal when the first tokens are there.
  const auto killed_by = [&](const std::string& signal) {
    return generate(endless, "sh -c '\"$0\" \"$@\" & while [ $(wc -c < .out) -lt 14 ]; do sleep 0.1; done; kill -" +
                                 signal + " $!; wait $!'");
  };
  const Outcome stopped = killed_by("TERM");
  EXPECT_EQ(stopped.code, 7) << stopped.err;
  EXPECT_THAT(stopped.out, AllOf(StartsWith("abcdefgabcdefg"), ::testing::EndsWith("\n")));
  EXPECT_THAT(stopped.err, HasSubstr("stopped early: "));
  EXPECT_EQ(place->read("out.txt"), "what was there");
  EXPECT_EQ(killed_by("KILL").code, 137);
  EXPECT_EQ(place->read("out.txt"), "what was there");
  EXPECT_EQ(text_of("--prompt abc --temperature 0 -o out.txt --tokens 3"), "abcdef\n");
  EXPECT_EQ(place->read("out.txt"), "abcdef");
}

TEST_F(Generate, ShowsWholeCodePoints) {
  // At a great temperature any byte comes: most of it is no UTF-8.
  const std::string text = nlohmann::json::parse(text_of("--prompt a --tokens 60 --temperature 50 --json")).at("text");
  EXPECT_THAT(text, HasSubstr("\xEF\xBF\xBD"));
}

TEST_F(Generate, BadUse) {
  EXPECT_THAT(generate("--prompt ''"), Fails(2, AllOf(HasSubstr("[--prompt] there is nothing to go on with"),
                                                      HasSubstr("a text of one token at least"),
                                                      HasSubstr("an empty prompt"), HasSubstr("to mend:"))));
  EXPECT_THAT(generate(""), Fails(2, AllOf(HasSubstr("--prompt is required"), HasSubstr("hetsynth generate --help"))));
  EXPECT_THAT(generate("--prompt a --tokens 0"), Fails(2, HasSubstr("expected a number from 1, found 0")));
  for (const char* p : {"0", "1.5", "-1", "nan", "x"})
    EXPECT_THAT(generate(std::string("--prompt a --top-p ") + p),
                Fails(2, HasSubstr(std::string("expected a number above 0, at most 1, found ") + p)));
  EXPECT_THAT(generate("--prompt a --top-k -2"), Fails(2, HasSubstr("expected a number from 0, found -2")));
  EXPECT_THAT(generate("--prompt a --temperature -1"), Fails(2, HasSubstr("expected a number from 0, found -1")));
  EXPECT_THAT(generate("--prompt a --prompt-block 3"),
              Fails(2, AllOf(Not(HasSubstr("predicted")), HasSubstr("leave --prompt-block out"),
                             HasSubstr("[--prompt-block] blocks of a prompt have to divide the model's window of 8"),
                             HasSubstr("one of 1, 2, 4, 8"), HasSubstr("found:    3"))));
  EXPECT_THAT(generate("--prompt a --prompt-block 0"), Fails(2, HasSubstr("expected a number from 1, found 0")));
  EXPECT_THAT(generate("--prompt a --prompt-block 2 --whole-windows"),
              Fails(2, HasSubstr("--whole-windows excludes --prompt-block")));
  EXPECT_THAT(generate("--prompt a --around-text"), Fails(2, HasSubstr("leave --around-text out")));
  EXPECT_THAT(generate("--prompt a --end-of-text abc"),
              Fails(2, AllOf(HasSubstr("the model's tokens are bytes"), HasSubstr("found:    \"abc\""))));
  EXPECT_THAT(generate("--prompt a --tokenizer t.json"),
              Fails(2, AllOf(HasSubstr("reads the bytes of texts"), HasSubstr("leave --tokenizer out"))));
  EXPECT_THAT(generate("--prompt a --accumulate 2"), Fails(2, HasSubstr("leave --accumulate out")));
  EXPECT_THAT(generate("--prompt a -o no/such/folder/x"), Fails(1, HasSubstr("no/such/folder/x")));
}

TEST_F(Generate, CheckpointsAndModelsThatDoNotFit) {
  place->write("wider.cpp", everywhere(text_model, "12", "15"));
  EXPECT_THAT(place->run("generate wider.cpp a.st --prompt a"),
              Fails(3, AllOf(HasSubstr("tensor table has another type"), HasSubstr("f32[256,15]"),
                             HasSubstr("load it with the model"))));
  EXPECT_THAT(place->run("generate model.cpp none.st --prompt a"), Fails(3, HasSubstr("none.st")));
  EXPECT_THAT(place->run("generate model.cpp text.txt --prompt a"),
              Fails(3, AllOf(HasSubstr("text.txt: error: [checkpoint] the file is cut short or no safetensors file"),
                             HasSubstr("expected: the length of a header"),
                             HasSubstr("found:    3000 bytes that begin with \"abcdefga\""),
                             HasSubstr("to mend:  name a checkpoint that is whole"))));
  place->write("silent.cpp", everywhere(text_model, "output(\"logits\", logits);", ""));
  EXPECT_THAT(place->run("generate silent.cpp a.st --prompt a"),
              Fails(3, AllOf(HasSubstr("silent.cpp: error: [generate] the model does not say what its logits"),
                             HasSubstr("output(\"logits\", x) in model()"), HasSubstr("can still be loaded"))));
  place->write("images.cpp", small_model);
  EXPECT_THAT(place->run("generate images.cpp a.st --prompt a"), Fails(3, HasSubstr("does not say what its logits")));
}

TEST_F(Generate, WholeWindowsWherePositionsAreNotOnTheirOwn) {
  place->write("both.cpp", everywhere(text_model, ".causal = true", ".causal = false"));
  const Outcome ran = place->run("generate both.cpp a.st --prompt abc --tokens 2 --temperature 0 --json");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("whole windows are read for every token: "));
  EXPECT_THAT(nlohmann::json::parse(ran.out).at("why_whole_windows"), HasSubstr("reads other positions of"));
}

/// A model of tokens, and tokenizers that fit it and do not.
TEST_F(Generate, ModelsOfTokensNeedTheirTokenizer) {
  const Workplace tokens;
  std::string model = everywhere(text_model, "text_batch(batch, 8)", "token_batch(batch, 8, 300)");
  tokens.write("model.cpp", everywhere(model, "256", "300"));
  std::string text;
  for (int i = 0; i < 300; ++i) text += "na\xC3\xAFve \xE6\x97\xA5\xE6\x9C\xAC word " + std::to_string(i % 9) + "\n";
  tokens.write("text.txt", text);
  const auto succeeds = [&](const std::string& command) {
    const Outcome ran = tokens.run(command);
    EXPECT_EQ(ran.code, 0) << command << ran.out << ran.err;
    return ran;
  };
  succeeds("tokenize text.txt --train-bpe 290 --special '<|endoftext|>' -o t.json");
  succeeds("tokenize text.txt --train-bpe 270 -o small.json");
  tokens.write("more.txt", text + "the quick brown fox jumps over the lazy dog, the quick brown fox jumps\n");
  succeeds("tokenize more.txt --train-bpe 330 -o large.json");
  succeeds("tokenize text.txt -t t.json -o tokens.npy");
  succeeds("run model.cpp --data tokens.npy --steps 60 --sample 0 --checkpoint a.st");
  const auto generate = [&](const std::string& options) { return tokens.run("generate model.cpp a.st " + options); };
  const Outcome ran = succeeds("generate model.cpp a.st -t t.json --prompt 'na\xC3\xAFve' --temperature 0 --tokens 12");
  EXPECT_THAT(ran.out, StartsWith("na\xC3\xAFve \xE6\x97\xA5\xE6\x9C\xAC word "));
  EXPECT_THAT(generate("--prompt a"),
              Fails(2, AllOf(HasSubstr("not said which text they stand for"),
                             HasSubstr("a vocabulary of 300 and no tokenizer"), HasSubstr("--tokenizer bytes"))));
  EXPECT_THAT(generate("--prompt a").err, HasSubstr("the checkpoint's tokens are those of t.json, byte-level BPE"));
  EXPECT_THAT(generate("--prompt a -t bytes --tokens 2"), Fails(3, HasSubstr("bytes of text (fingerprint ")));
  EXPECT_EQ(generate("--prompt a -t bytes --tokens 2 --other-tokenizer").code, 0);
  EXPECT_THAT(
      generate("--prompt a -t large.json"),
      Fails(3, AllOf(HasSubstr("large.json: error: [--tokenizer] the tokenizer has tokens that the model cannot"),
                     HasSubstr("at most 300 tokens"), HasSubstr("byte-level BPE of 3"))));
  EXPECT_THAT(generate("--prompt 'na\xEFve' -t t.json"),
              Fails(2, AllOf(HasSubstr("[--prompt] the text is no UTF-8"), HasSubstr("byte 0xEF at byte 2"),
                             HasSubstr("iconv"))));
  EXPECT_THAT(generate("--prompt a -t t.json --end-of-text '<s>'"),
              Fails(3, HasSubstr("[--end-of-text] the tokenizer has no such token")));
  EXPECT_THAT(generate("--prompt '' -t t.json --around-text"), Fails(2, HasSubstr("an empty prompt")));
}

}  // namespace
}  // namespace hetsynth::testing
