// Options that mean something only beside others, or only for some models: every command refuses them where they would
// be passed over in silence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "hetsynth/build_paths.h"
#include "tests/cli/command.h"

namespace hetsynth::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct PassedOver {
  std::string words;    ///< of a command line
  std::string message;  ///< what is said of it
};

/// A command, the words that it needs in any case, and the options that mean nothing beside them.
struct CommandCase {
  std::string command;
  std::vector<PassedOver> options;
};

const std::vector<CommandCase> cases = {
    {"run model.cpp --cluster c.toml --steps 1",
     {{"--checkpoint-every 5", "--checkpoint-every needs --checkpoint"},
      {"--keep 2", "--keep needs --checkpoint"},
      {"--keep best --checkpoint a.st", "--keep best needs --valid"},
      {"--valid-every 5", "--valid-every needs --valid"},
      {"--valid-batches 5", "--valid-batches needs --valid"},
      {"--stop-after 5", "--stop-after needs --valid"},
      {"--map rules.toml", "--map requires --init-from"},
      {"--new-data", "--new-data requires --resume"},
      {"--sample 20", "--sample is of the text that is sampled after training, and there is none"},
      {"--prompt abc", "--prompt is of the text that is sampled after training, and there is none"},
      {"--temperature 1", "--temperature is of the text that is sampled after training, and there is none"},
      {"--plan p.json --effort quick", "--plan excludes --effort"},
      {"--plan p.json --pin w1=replicated", "--plan excludes --pin"},
      {"--trace t.json --balance shares", "--balance excludes --trace"},
      {"--leave-out b=0.5", "give --balance lossy too, or leave --leave-out out"}}},
    {"evaluate model.cpp a.st --cluster c.toml",
     {{"--accumulate 2", "leave --accumulate out"},
      {"--turns 2", "leave --turns out"},
      {"--gradient-norm", "leave --gradient-norm out"},
      {"--freeze w1", "leave --freeze out"}}},
    {"generate model.cpp a.st --cluster c.toml --prompt a",
     {{"--accumulate 2", "leave --accumulate out"},
      {"--turns 2", "leave --turns out"},
      {"--gradient-norm", "leave --gradient-norm out"},
      {"--freeze w1", "leave --freeze out"},
      {"--whole-windows --prompt-block 2", "--whole-windows excludes --prompt-block"}}},
    {"plan model.cpp --cluster c.toml --set evaluation=1",
     {{"--gradient-norm", "leave --gradient-norm out"}, {"--freeze w1", "leave --freeze out"}}},
    {"inspect model.cpp p.json", {{"--rank 1 --out folder", "excludes --"}}},
    {"verify model.cpp p.json",
     {{"--seed 3", "--seed requires --numeric"},
      {"--data x", "--data requires --numeric"},
      {"--cert a --output b", "--output excludes --cert"}}},
    {"tokenize a.txt -o t.npy -t t.json",
     {{"--words gpt2", "--words requires --train-bpe"}, {"--special x", "--special requires --train-bpe"}}},
    {"tokenize a.txt -o t.json --train-bpe 300",
     {{"--end-of-text x", "--train-bpe"}, {"--around-text", "--train-bpe"}, {"-t u.json", "--train-bpe"}}},
    {"tokenize --decode t.npy -t t.json",
     {{"--end-of-text x", "--decode"},
      {"--around-text", "--decode"},
      {"--replace-invalid", "--decode"},
      {"--threads 2", "--decode"},
      {"a.txt", "--decode takes no texts"}}},
};

TEST(Options, NoneIsPassedOverInSilence) {
  const Workplace place;
  for (const CommandCase& command : cases)
    for (const PassedOver& option : command.options) {
      const std::string words = command.command + " " + option.words;
      EXPECT_THAT(place.run(words), Fails(2, HasSubstr(option.message))) << words;
    }
}

TEST(Options, OfTheSampleMeanNothingWithoutOne) {
  const Workplace place;
  const std::string run = "run " + std::string(HETSYNTH_SOURCE_DIR) + "/examples/mlp.cpp --cluster c.toml --steps 0 ";
  EXPECT_THAT(place.run(run + "--sample 0 --prompt abc"),
              Fails(2, AllOf(HasSubstr("[run] --prompt is of the text that is sampled after training"),
                             HasSubstr("expected: --sample with a number above 0"), HasSubstr("leave --prompt out"))));
  EXPECT_EQ(place.run(run + "--sample 2 --prompt abc --temperature 0").code, 0);
}

/// A run with --freeze and --gradient-norm validates, though an evaluation has neither.
TEST(Options, OfTrainingAloneAreNoMatterToItsValidation) {
  const Workplace place;
  const Outcome ran = place.run(
      "run model.cpp --cluster c.toml --steps 1 --gradient-norm --freeze w1 --valid synthetic --valid-batches 1");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("validation after 1 steps"));
}

}  // namespace
}  // namespace hetsynth::testing
