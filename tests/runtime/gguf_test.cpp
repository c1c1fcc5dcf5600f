// GGUF files, read back by a reader of this test's own, and the rules that they are made by.
#include "runtime/weights/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <numeric>
#include <sstream>

#include "dsl/base/file.h"
#include "hetsynth/build_paths.h"
#include "runtime/weights/exported_weights.h"
#include "runtime/weights/gguf_rules.h"
#include "runtime/weights/gguf_tokens.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/support/error_of.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace testing;  // NOLINT: fixtures of other folders

/// Reads by the format's description alone; values as text.
class Reader {
 public:
  explicit Reader(std::string bytes) : bytes_(std::move(bytes)) {
    EXPECT_EQ(take(4), "GGUF");
    EXPECT_EQ(number<uint32_t>(), 3U);
    const auto tensor_count = number<uint64_t>(), entry_count = number<uint64_t>();
    for (uint64_t i = 0; i < entry_count; ++i) {
      const std::string key = string();
      order.push_back(key);
      entries[key] = value(number<uint32_t>());
    }
    std::vector<std::pair<std::string, uint64_t>> places;
    for (uint64_t i = 0; i < tensor_count; ++i) {
      const std::string name = string();
      std::vector<uint64_t> extents(number<uint32_t>());
      for (uint64_t& extent : extents) extent = number<uint64_t>();
      EXPECT_EQ(number<uint32_t>(), 0U) << "float32";
      places.emplace_back(name, number<uint64_t>());
      shapes[name] = extents;
    }
    const size_t data = (at_ + 31) / 32 * 32;
    for (const auto& [name, place] : places) {
      EXPECT_EQ(place % 32, 0U) << name;
      const auto count = std::accumulate(shapes[name].begin(), shapes[name].end(), uint64_t{1}, std::multiplies<>());
      tensors[name].resize(count);
      EXPECT_LE(data + place + count * 4, bytes_.size()) << name;
      std::memcpy(tensors[name].data(), bytes_.data() + data + place, count * 4);
    }
    EXPECT_EQ(bytes_.size() % 32, data % 32);
  }
  std::vector<std::string> order;
  std::map<std::string, std::string> entries;
  std::map<std::string, std::vector<uint64_t>> shapes;
  std::map<std::string, std::vector<float>> tensors;

 private:
  std::string take(size_t count) {
    EXPECT_LE(at_ + count, bytes_.size());
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  template <class Number>
  Number number() {
    Number out{};
    std::memcpy(&out, take(sizeof out).data(), sizeof out);
    return out;
  }
  std::string string() { return take(number<uint64_t>()); }
  std::string value(uint32_t kind) {
    std::ostringstream out;
    if (kind == 4) out << "u" << number<uint32_t>();
    if (kind == 5) out << "i" << number<int32_t>();
    if (kind == 6) out << "f" << number<float>();
    if (kind == 7) out << (number<uint8_t>() ? "true" : "false");
    if (kind == 8) out << string();
    if (kind == 9) {
      const auto of = number<uint32_t>();
      const auto count = number<uint64_t>();
      for (uint64_t i = 0; i < count; ++i) out << (i ? "|" : "") << value(of);
    }
    return out.str();
  }
  std::string bytes_;
  size_t at_ = 0;
};

/// Numbers of which each tells its tensor and place.
HostTensor numbered(const Shape& shape, float first) {
  HostTensor out({shape, DType::f32});
  for (size_t i = 0; i < out.as<float>().size(); ++i) out.as<float>()[i] = first + float(i);
  return out;
}

TEST(Gguf, HoldsEntriesAndTensorsAsTheFormatSays) {
  const TemporaryFolder folder;
  const std::vector<TensorEntry> tensors = {{"a", {{2, 3}, DType::f32}}, {"b", {{5}, DType::f32}}};
  write_gguf(folder.path("m.gguf"),
             {{"count", uint32_t{7}},
              {"rate", 0.5F},
              {"yes", true},
              {"name", std::string("a model")},
              {"words", std::vector<std::string>{"one", "", "\xC3\xA9"}},
              {"scores", std::vector<float>{-1, 2.5F}},
              {"types", std::vector<int32_t>{1, -2}}},
             tensors, [&](const std::string& name) {
               return name == "a" ? numbered({2, 3}, 10) : numbered({5}, 20);
             });
  const Reader file(read_file(folder.path("m.gguf"), "file", 1 << 20));
  EXPECT_THAT(file.order,
              ElementsAre("general.source.converter", "count", "rate", "yes", "name", "words", "scores", "types"));
  EXPECT_EQ(file.entries.at("count"), "u7");
  EXPECT_EQ(file.entries.at("rate"), "f0.5");
  EXPECT_EQ(file.entries.at("yes"), "true");
  EXPECT_EQ(file.entries.at("name"), "a model");
  EXPECT_EQ(file.entries.at("words"), "one||\xC3\xA9");
  EXPECT_EQ(file.entries.at("scores"), "f-1|f2.5");
  EXPECT_EQ(file.entries.at("types"), "i1|i-2");
  EXPECT_THAT(file.shapes.at("a"), ElementsAre(3, 2)) << "from the innermost dimension on";
  EXPECT_THAT(file.tensors.at("a"), ElementsAre(10, 11, 12, 13, 14, 15));
  EXPECT_THAT(file.tensors.at("b"), ElementsAre(20, 21, 22, 23, 24));
}

TEST(Gguf, NamesAndDimensionsThatTheFormatHasNotAreRefused) {
  const TemporaryFolder folder;
  const auto written = [&](const std::string& name, const Shape& shape) {
    return error_of([&] {
      write_gguf(folder.path("m.gguf"), {}, {{name, {shape, DType::f32}}}, [&](auto&) { return numbered(shape, 0); });
    });
  };
  EXPECT_EQ(written(std::string(63, 'a'), {1, 1, 1, 1}), "no error");
  EXPECT_THAT(written(std::string(64, 'a'), {1}), AllOf(HasSubstr("longer than the format allows"), HasSubstr("63")));
  EXPECT_THAT(written("five", {1, 1, 1, 1, 1}), AllOf(HasSubstr("five has more dimensions"), HasSubstr("at most 4")));
}

/// A checkpoint of examples/llama.cpp of two layers: width 4, two heads of 4 features, one of keys, 6 hidden, 9 tokens.
std::vector<TensorEntry> llama(bool head = true) {
  std::vector<TensorEntry> out = {{"norm", {{4}, DType::f32}}, {"tokens", {{9, 4}, DType::f32}}};
  if (head) out.push_back({"head", {{4, 9}, DType::f32}});
  for (const std::string layer : {"layer0.", "layer1."}) {
    for (const char* norm : {"norm1", "norm2"}) out.push_back({layer + norm, {{4}, DType::f32}});
    out.push_back({layer + "attention.query", {{4, 2, 4}, DType::f32}});
    out.push_back({layer + "attention.key", {{4, 1, 4}, DType::f32}});
    out.push_back({layer + "attention.value", {{4, 1, 4}, DType::f32}});
    out.push_back({layer + "attention.out", {{2, 4, 4}, DType::f32}});
    out.push_back({layer + "mlp.gate", {{4, 6}, DType::f32}});
    out.push_back({layer + "mlp.up", {{4, 6}, DType::f32}});
    out.push_back({layer + "mlp.down", {{6, 4}, DType::f32}});
    out.push_back({layer + "mlp.up.m", {{4, 6}, DType::f32}});  // a state of the optimizer
  }
  return out;
}

class GgufRulesOfLlama : public ::testing::Test {
 protected:
  void write(const std::vector<TensorEntry>& entries) const {
    write_safetensors(folder.path("c.st"), entries, {}, [&](const std::string& name) {
      for (const TensorEntry& entry : entries)
        if (entry.name == name) return numbered(entry.type.shape, 0);
      return HostTensor();
    });
  }
  std::string failure(const std::map<std::string, std::string>& given) const {
    return error_of([&] {
      const SafetensorsFile file(folder.path("c.st"));
      const GgufRules rules = *GgufRules::load(path);
      rules.check_complete(file, WeightMap::load(path));
      rules.entries(file, given);
    });
  }
  const TemporaryFolder folder;
  const std::string path = HETSYNTH_SOURCE_DIR "/examples/weights/llama-gguf.toml";
  const std::map<std::string, std::string> enough = {{"llama.context_length", "64"}, {"llama.rope.freq_base", "1e4"}};
};

TEST_F(GgufRulesOfLlama, TellItsSizes) {
  write(llama());
  const SafetensorsFile file(folder.path("c.st"));
  const GgufRules rules = *GgufRules::load(path);
  rules.check_complete(file, WeightMap::load(path));
  auto given = enough;
  given["general.name"] = "tuned";
  std::map<std::string, GgufValue> entries;
  for (const auto& [key, value] : rules.entries(file, given)) entries[key] = value;
  for (const auto& [key, value] : std::map<std::string, GgufValue>{{"general.architecture", std::string("llama")},
                                                                   {"general.name", std::string("tuned")},
                                                                   {"llama.block_count", uint32_t{2}},
                                                                   {"llama.context_length", uint32_t{64}},
                                                                   {"llama.embedding_length", uint32_t{4}},
                                                                   {"llama.feed_forward_length", uint32_t{6}},
                                                                   {"llama.attention.head_count", uint32_t{2}},
                                                                   {"llama.attention.head_count_kv", uint32_t{1}},
                                                                   {"llama.rope.dimension_count", uint32_t{4}},
                                                                   {"llama.rope.freq_base", 1e4F},
                                                                   {"llama.vocab_size", uint32_t{9}}})
    EXPECT_EQ(entries.at(key), value) << key;
}

/// llama.cpp turns neighbours of a head, the example its halves: feature 2 of 4 becomes its second.
TEST_F(GgufRulesOfLlama, PutRotaryPairsSideBySide) {
  write(llama());
  SafetensorsFile file(folder.path("c.st"));
  const ExportedWeights weights = exported_weights(file, WeightMap::load(path));
  ExportedValues values(weights, [&](const std::string& name) { return file.read(name); });
  for (const ExportedWeights::Exported& exported : weights.tensors) {
    if (exported.entry.name != "blk.1.attn_q.weight") continue;
    const HostTensor value = values.value(exported);
    EXPECT_EQ(value.type.shape, (Shape{8, 4}));
    // Of input 0 the checkpoint has head 0 in 0 to 3.
    std::vector<float> of_first_input;
    for (size_t row = 0; row < 8; ++row) of_first_input.push_back(value.as<float>()[row * 4]);
    EXPECT_THAT(of_first_input, ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
    return;
  }
  FAIL() << "no query";
}

TEST_F(GgufRulesOfLlama, AskForWhatIsMissing) {
  write(llama(/*head=*/false));
  EXPECT_EQ(failure(enough), "no error") << "a tied head is the table of tokens";
  EXPECT_THAT(failure({}), AllOf(HasSubstr("llama.context_length is not known: tokens in a window"),
                                 HasSubstr("--metadata llama.context_length=VALUE")));
  for (const char* wrong : {"", "64.5", "-1", "many", "4294967296"})
    EXPECT_THAT(failure({{"llama.context_length", wrong}, {"llama.rope.freq_base", "1e4"}}),
                AllOf(HasSubstr("no value of llama.context_length"), HasSubstr("a whole number from 0")));
  EXPECT_THAT(failure({{"llama.context_length", "64"}, {"llama.rope.freq_base", "inf"}}),
              HasSubstr("no value of llama.rope.freq_base"));
  std::vector<TensorEntry> entries = llama();
  std::erase_if(entries, [](const TensorEntry& entry) { return entry.name == "layer1.mlp.down"; });
  write(entries);
  EXPECT_THAT(failure(enough), AllOf(HasSubstr("lacks a tensor"), HasSubstr("layer{i}.mlp.down of block 1, of 2")));
  write({{"h0.w", {{4, 4}, DType::f32}}});
  EXPECT_THAT(failure(enough), AllOf(HasSubstr("lacks a tensor"), HasSubstr("take the rules of the model")));
}

TEST(GgufRules, OfTheWrongFormAreRefused) {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"gguf = 3", "gguf is no table"},
      {"[gguf]\nx = [1]", "x has a value of the wrong kind"},
      {"[gguf]\nx = -1", "x has a value of the wrong kind"},
      {"[gguf]\nx = { count = \"\" }", "x has a value of the wrong kind"},
      {"[gguf]\nx = { extent = \"a\" }", "x has a value of the wrong kind"},
      {"[gguf]\nx = { extent = \"a\", dim = \"b\" }", "x has a value of the wrong kind"},
      {"[gguf]\nx = { given = \"a\", type = \"tensor\" }", "the type of a given value is none"},
      {"[gguf]\noptional = \"head\"", "a list of parameters"},
      {"[gguf]\noptional = [1]", "a list of parameters"}};
  for (const auto& [text, words] : wrong) {
    folder.write("rules.toml", text);
    EXPECT_THAT(error_of([&] { GgufRules::load(folder.path("rules.toml")); }),
                AllOf(HasSubstr(words), HasSubstr("rules.toml:"), HasSubstr("docs/weights.md")))
        << text;
  }
  folder.write("rules.toml", "[gguf]\nx = true");
  write_safetensors(folder.path("c.st"), {}, {}, [](const std::string&) { return HostTensor(); });
  const SafetensorsFile none(folder.path("c.st"));
  EXPECT_EQ(GgufRules::load(folder.path("rules.toml"))->entries(none, {{"x", "false"}})[0].second, GgufValue(false));
  EXPECT_THAT(error_of([&] {
                GgufRules::load(folder.path("rules.toml"))->entries(none, {{"x", "yes"}});
              }),
              AllOf(HasSubstr("no value of x"), HasSubstr("true or false"), HasSubstr("yes")));
  folder.write("rules.toml", "[tensors]\na = \"b\"");
  EXPECT_FALSE(GgufRules::load(folder.path("rules.toml")).has_value());
}

TEST(GgufTokens, OfByteLevelPairsAreThoseOfTheFile) {
  const TemporaryFolder folder;
  folder.write("t.json", R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "<s>": 4},
    "merges": ["a b"]}, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "decoder": {"type": "ByteLevel"},
    "added_tokens": [{"id": 4, "content": "<s>", "special": true}, {"id": 5, "content": "</s>", "special": true}]})");
  std::map<std::string, GgufValue> entries;
  for (const auto& [key, value] : gguf_tokens(folder.path("t.json"), 7, false)) entries[key] = value;
  EXPECT_EQ(entries.at("tokenizer.ggml.model"), GgufValue(std::string("gpt2")));
  EXPECT_EQ(entries.at("tokenizer.ggml.pre"), GgufValue(std::string("gpt-2")));
  EXPECT_EQ(entries.at("tokenizer.ggml.tokens"),
            GgufValue(std::vector<std::string>{"a", "b", "ab", "[PAD3]", "<s>", "</s>", "[PAD6]"}));
  EXPECT_EQ(entries.at("tokenizer.ggml.token_type"), GgufValue(std::vector<int32_t>{1, 1, 1, 5, 3, 3, 5}));
  EXPECT_EQ(entries.at("tokenizer.ggml.merges"), GgufValue(std::vector<std::string>{"a b"}));
  EXPECT_EQ(entries.at("tokenizer.ggml.eos_token_id"), GgufValue(uint32_t{5}));
  EXPECT_THAT(error_of([&] { gguf_tokens(folder.path("t.json"), 5, false); }),
              AllOf(HasSubstr("more tokens than the model"), HasSubstr("at most 5"), HasSubstr("6")));
}

TEST(GgufTokens, OfOtherKindsAreRefused) {
  const TemporaryFolder folder;
  folder.write("words.json", R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
    "pre_tokenizer": {"type": "Whitespace"}})");
  EXPECT_THAT(error_of([&] { gguf_tokens(folder.path("words.json"), 7, false); }),
              AllOf(HasSubstr("has no form in a GGUF file"), HasSubstr("byte-level BPE")));
  folder.write("digits.json", R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, "decoder": null,
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true},
    {"type": "ByteLevel", "add_prefix_space": false}]}})");
  EXPECT_THAT(error_of([&] { gguf_tokens(folder.path("digits.json"), 7, false); }),
              AllOf(HasSubstr("not known to cut texts"), HasSubstr("--metadata tokenizer.ggml.pre=NAME")));
  EXPECT_EQ(error_of([&] { gguf_tokens(folder.path("digits.json"), 7, true); }), "no error");
}

}  // namespace
}  // namespace hetsynth
