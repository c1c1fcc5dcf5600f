// From a base model to one with trained adapters, and to one whole model again: run, export, export --merge.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "hetsynth/build_paths.h"
#include "tests/cli/command.h"

namespace hetsynth::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string examples = HETSYNTH_SOURCE_DIR "/examples/";
const std::string of_base = " --map " + examples + "weights/gpt2.toml";
const std::string of_adapters = " --map " + examples + "weights/gpt2-lora.toml";
const std::string merge = " --merge " + examples + "weights/gpt2-lora.toml";

class WithBase : public ::testing::Test {
 protected:
  WithBase(const std::string& model, const std::string& map) {
    std::string text;
    for (int i = 0; i < 40; ++i) text += "line " + std::to_string(i * i) + " of a text to train on\n";
    place.write("text.txt", text);
    succeed("run " + examples + model + run_options + "--steps 2 --checkpoint base.st");
    succeed("export base.st" + map + " -o base.safetensors");
  }
  Outcome succeed(const std::string& words) const {
    const Outcome outcome = place.run(words);
    EXPECT_EQ(outcome.code, 0) << words << "\n" << outcome.out << outcome.err;
    return outcome;
  }
  double loss_of(const std::string& example, const std::string& checkpoint) const {
    const Outcome found = succeed("evaluate " + examples + example + " " + checkpoint +
                                  " --cluster c.toml --set size=tiny --data text:text.txt --json");
    return nlohmann::json::parse(found.out).at("loss");
  }
  nlohmann::json tensors_of(const std::string& checkpoint) const {
    return nlohmann::json::parse(succeed("checkpoint " + checkpoint + " --json").out).at("tensors");
  }
  const std::string run_options = " --cluster c.toml --set size=tiny --data text:text.txt --sample 0 ";
  const Workplace place;
};

class AdaptersCommand : public WithBase {
 protected:
  AdaptersCommand() : WithBase("gpt2.cpp", of_base) {}
};

TEST_F(AdaptersCommand, AreTrainedSavedAloneLoadedAndMerged) {
  const Outcome tuned =
      succeed("run " + examples + "lora.cpp" + run_options + "--set lr=0.02 --init-from base.safetensors" + of_base +
              " --steps 12 --checkpoint tuned.st");
  EXPECT_THAT(tuned.out, AllOf(HasSubstr("weights: 36 of 44 parameters from base.safetensors"),
                               HasSubstr("8 keep their starting values: h0.attention.lora_a")));
  const double loss = loss_of("lora.cpp", "tuned.st");
  EXPECT_LT(loss, loss_of("gpt2.cpp", "base.st") - 0.01) << "the adapters matter";

  const Outcome alone = succeed("export tuned.st" + of_adapters + " -o adapter_model.safetensors");
  EXPECT_THAT(alone.out, HasSubstr("adapter_model.safetensors: 4 tensors"));
  EXPECT_LT(std::filesystem::file_size(place.folder() / "adapter_model.safetensors"), 12'000u)
      << "32 * 8 and 8 * 96 numbers of two layers";
  EXPECT_THAT(place.read("adapter_model.safetensors"),
              HasSubstr("base_model.model.transformer.h.1.attn.c_attn.lora_B.weight"));

  const Outcome again =
      succeed("run " + examples + "lora.cpp" + run_options + "--init-from base.safetensors" + of_base +
              " --init-from adapter_model.safetensors" + of_adapters + " --steps 0 --checkpoint again.st");
  EXPECT_THAT(again.out, AllOf(HasSubstr("weights: 36 of 44 parameters from base.safetensors"),
                               HasSubstr("weights: 8 of 44 parameters from adapter_model.safetensors, 4 tensors"),
                               Not(HasSubstr("their starting values"))));
  EXPECT_EQ(loss_of("lora.cpp", "again.st"), loss);

  const Outcome merged = succeed("export tuned.st" + of_base + merge + " -o merged.safetensors");
  EXPECT_THAT(merged.out, HasSubstr("28 tensors"));
  EXPECT_THAT(merged.out, HasSubstr("adapters merged into 6 parameters; left in the checkpoint: 16 tensors"));
  succeed("run " + examples + "gpt2.cpp" + run_options + "--init-from merged.safetensors" + of_base +
          " --steps 0 --checkpoint merged.st");
  EXPECT_NEAR(loss_of("gpt2.cpp", "merged.st"), loss, 2e-6) << "float32 sums in another order";
  // Without merging the base is exported as it was.
  succeed("export tuned.st" + of_base + " -o untouched.safetensors");
  EXPECT_THAT(place.run("export tuned.st" + of_base + " -o untouched.gguf"),
              Fails(2, AllOf(HasSubstr("untouched.gguf: error: [export] the name is that of another format"),
                             HasSubstr("without a table [gguf]"), HasSubstr("to mend:"))));
  EXPECT_EQ(place.read("untouched.safetensors"), place.read("base.safetensors"));
}

TEST_F(AdaptersCommand, MistakesAreTold) {
  EXPECT_THAT(place.run("export base.st" + of_base + merge + " -o m.safetensors"),
              Fails(3, AllOf(HasSubstr("gpt2-lora.toml:"), HasSubstr("no rule of [merge] fits"))));
  EXPECT_THAT(place.run("export base.st" + of_base + " --merge " + examples + "weights/gpt2.toml -o m.safetensors"),
              Fails(3, AllOf(HasSubstr("gpt2.toml"), HasSubstr("does not say what is merged"))));
  EXPECT_FALSE(place.exists("m.safetensors"));
  const std::string run = "run " + examples + "lora.cpp" + run_options + "--steps 0 --init-from base.safetensors";
  EXPECT_THAT(place.run(run + of_base + of_adapters),
              Fails(2, AllOf(HasSubstr("not as many rules as files"), HasSubstr("1 file and 2 files of rules"))));
  EXPECT_THAT(place.run(run + of_base + " --init-from base.safetensors" + of_adapters),
              Fails(3, HasSubstr("no parameter of the model is found in the file")));
}

TEST_F(AdaptersCommand, AreRepeatedByTheJobFile) {
  succeed("run " + examples + "lora.cpp" + run_options + "--init-from base.safetensors" + of_base +
          " --steps 2 --checkpoint tuned.st");
  const std::string tuned = place.read("tuned.st");
  succeed("export tuned.st" + of_adapters + " -o adapters.safetensors");
  const std::string both =
      " --init-from base.safetensors" + of_base + " --init-from adapters.safetensors" + of_adapters;
  succeed("run " + examples + "lora.cpp" + run_options + both + " --steps 2 --checkpoint more.st");
  const std::string more = place.read("more.st");
  succeed("run more.st.job.toml --checkpoint repeated.st");
  EXPECT_EQ(place.read("repeated.st"), more);
  EXPECT_NE(more, tuned);
}

const std::string of_llama = " --map " + examples + "weights/llama.toml";
const std::string of_llama_adapters = " --map " + examples + "weights/llama-lora.toml";
const std::string merge_llama = " --merge " + examples + "weights/llama-lora.toml";

class LlamaAdapters : public WithBase {
 protected:
  LlamaAdapters() : WithBase("llama.cpp", of_llama) {}
  const std::string train = "run " + examples + "lora_llama.cpp" + run_options + "--init-from base.safetensors" +
                            of_llama + " --set lr=0.02 --steps 12 ";
};

TEST_F(LlamaAdapters, AreTrainedSavedAloneLoadedAndMerged) {
  const Outcome tuned = succeed(train + "--checkpoint tuned.st");
  EXPECT_THAT(tuned.out, AllOf(HasSubstr("weights: 21 of 37 parameters from base.safetensors"),
                               HasSubstr("16 keep their starting values: layer0.attention.query.lora_a")));
  const double loss = loss_of("lora_llama.cpp", "tuned.st");
  EXPECT_LT(loss, loss_of("llama.cpp", "base.st") - 0.01) << "the adapters matter";

  const Outcome alone = succeed("export tuned.st" + of_llama_adapters + " -o adapter_model.safetensors");
  EXPECT_THAT(alone.out, HasSubstr("adapter_model.safetensors: 16 tensors"));
  EXPECT_THAT(place.read("adapter_model.safetensors"),
              HasSubstr("base_model.model.model.layers.1.self_attn.o_proj.lora_B.weight"));
  const Outcome again =
      succeed("run " + examples + "lora_llama.cpp" + run_options + "--init-from base.safetensors" + of_llama +
              " --init-from adapter_model.safetensors" + of_llama_adapters + " --steps 0 --checkpoint again.st");
  EXPECT_THAT(again.out, Not(HasSubstr("their starting values")));
  EXPECT_EQ(loss_of("lora_llama.cpp", "again.st"), loss);

  // Rules for the MLP's adapters, which this model has not, are no mistake.
  const Outcome merged = succeed("export tuned.st" + of_llama + merge_llama + " -o merged.safetensors");
  EXPECT_THAT(merged.out, AllOf(HasSubstr("21 tensors"), HasSubstr("adapters merged into 8 parameters"),
                                Not(HasSubstr("not the optimizer's"))));
  succeed("run " + examples + "llama.cpp" + run_options + "--init-from merged.safetensors" + of_llama +
          " --steps 0 --checkpoint merged.st");
  EXPECT_NEAR(loss_of("llama.cpp", "merged.st"), loss, 2e-6) << "float32 sums in another order";
  EXPECT_THAT(succeed("export tuned.st" + of_llama + " -o untouched.safetensors").out,
              HasSubstr("and among them what is not the optimizer's: layer0.attention.key.lora_a, "));
  EXPECT_EQ(place.read("untouched.safetensors"), place.read("base.safetensors"));
}

TEST_F(LlamaAdapters, OnAllProjectionsAreMergedOrWrongNamesTold) {
  succeed(train + "--set adapters=all --set rank=2 --checkpoint tuned.st");
  EXPECT_THAT(succeed("export tuned.st" + of_llama + merge_llama + " -o merged.safetensors").out,
              HasSubstr("adapters merged into 14 parameters"));
  std::string rules = place.read(examples + "weights/llama-lora.toml");
  place.write("wrong.toml", everywhere(rules, "mlp.up.lora_", "mlp.upper_"));
  EXPECT_THAT(place.run("export tuned.st" + of_llama + " --merge wrong.toml -o m.safetensors"),
              Fails(3, AllOf(HasSubstr("wrong.toml:28: error: [weights] nothing of the checkpoint is added to "
                                       "\"layer{i}.mlp.up\", and tensors that could be are unused"),
                             HasSubstr("expected: layer0.mlp.upper_a and layer0.mlp.upper_b"),
                             HasSubstr("found:    layer0.mlp.up.lora_a and layer0.mlp.up.lora_b"))));
  EXPECT_FALSE(place.exists("m.safetensors"));
  EXPECT_THAT(place.run(train + "--set adapters=mlp"), Fails(2, HasSubstr("one of: query-value, attention, all")));
}

}  // namespace
}  // namespace hetsynth::testing
