// Damage done to generated text is found: by hand where the sentence matters, then systematically, number by number and
// operand by operand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <map>
#include <random>
#include <regex>

#include "codegen/interface/abi.h"
#include "synth/planner/synthesize.h"
#include "tests/codegen/harness.h"
#include "tests/codegen/models.h"
#include "tests/source/damage.h"
#include "tests/source/fixture.h"

namespace hetsynth::test {
namespace {

using ::testing::HasSubstr;

/// The MLP on one device, and over three devices by batch, where rank 1 is the one that is damaged.
const Generated& alone() {
  static const Generated g = [] {
    Program program = mlp_program();
    Cluster cluster = unequal_cluster({1e9});
    return generated(program, single_device_plan(program, cluster).program, cluster);
  }();
  return g;
}
const Generated& shared() {
  static const Generated g = [] {
    Program program = mlp_program();
    Cluster cluster = unequal_cluster({1e9, 3e9, 2e9});
    return generated(program, data_parallel_plan(program, cluster, RatioRule::proportional).program, cluster);
  }();
  return g;
}
/// Lines of the step function.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at + 1));
    at = end + 1;
  }
  return lines;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line;
  return out;
}

bool is_call(const std::string& line) {
  return line.rfind("  compute_", 0) == 0 || line.rfind("  hetsynth_matmul", 0) == 0 ||
         line.rfind("  if (hetsynth_", 0) == 0;
}

TEST(SourceDefects, EveryNumberCounts) {
  const std::string& text = text_of(alone(), 0);
  ASSERT_EQ(check(alone(), 0).verdict, Verdict::proved);
  Damage damage(alone());
  for (const Place& place : numbers(text)) {
    int64_t value = std::stoll(text.substr(place.at, place.length));
    for (int64_t by : {1, -1}) {
      if (value + by < 0) continue;
      std::string changed =
          text.substr(0, place.at) + std::to_string(value + by) + text.substr(place.at + place.length);
      damage.inflict(changed, line_around(changed, place.at));
    }
  }
  EXPECT_GT(damage.verdicts[Verdict::refuted], 200);
  // Sizes of local arrays, strides of a dimension of one element.
  EXPECT_LT(damage.verdicts[Verdict::proved], damage.verdicts[Verdict::refuted] / 4);
  EXPECT_LT(damage.verdicts[Verdict::unknown], damage.verdicts[Verdict::refuted] / 10);
}

TEST(SourceDefects, EveryPlaceInMemoryCounts) {
  const std::string& text = text_of(alone(), 0);
  std::vector<std::string> lines = lines_of(text);
  std::vector<std::pair<size_t, std::string>> places;  // line, offset
  std::regex declaration("\\(arena \\+ ([0-9]+)\\)");
  for (size_t i = 0; i < lines.size(); ++i)
    if (std::smatch found; std::regex_search(lines[i], found, declaration)) places.push_back({i, found[1]});
  ASSERT_GT(places.size(), 15u);
  Damage damage(alone());
  int pair = 0;
  for (const auto& [line, own] : places)
    for (const auto& [other_line, other] : places) {
      if (own == other || ++pair % 3 != 0) continue;  // a third of the pairs
      std::vector<std::string> changed = lines;
      changed[line] = std::regex_replace(lines[line], declaration, "(arena + " + other + ")");
      damage.inflict(joined(changed), changed[line]);
    }
  EXPECT_GT(damage.verdicts[Verdict::refuted], 100);
  EXPECT_EQ(damage.verdicts[Verdict::unknown], 0);
}

TEST(SourceDefects, EveryArgumentAndEveryCallCounts) {
  std::vector<std::string> lines = lines_of(text_of(alone(), 0));
  Damage damage(alone());
  std::vector<size_t> calls;
  for (size_t i = 0; i < lines.size(); ++i)
    if (is_call(lines[i])) calls.push_back(i);
  ASSERT_GT(calls.size(), 10u);
  for (size_t k = 0; k < calls.size(); ++k) {
    std::vector<std::string> dropped = lines;
    dropped[calls[k]] = "\n";
    damage.inflict(joined(dropped), "without " + lines[calls[k]]);
    std::vector<std::string> twice = lines;
    twice[calls[k]] += lines[calls[k]];
    damage.inflict(joined(twice), "twice " + lines[calls[k]]);
    // Neighbouring arguments exchanged.
    std::string call = lines[calls[k]];
    for (size_t comma = call.find(", "); comma != std::string::npos; comma = call.find(", ", comma + 1)) {
      size_t begin = call.find_last_of("(,", comma - 1) + 1, end = call.find_first_of(",)", comma + 1);
      std::string a = call.substr(begin, comma - begin), b = call.substr(comma + 1, end - comma - 1);
      auto bare = [](const std::string& word) { return word.substr(word.find_first_not_of(' ')); };
      bool alike =
          std::isdigit(static_cast<unsigned char>(bare(a)[0])) == std::isdigit(static_cast<unsigned char>(bare(b)[0]));
      if (bare(a) == bare(b) || !alike) continue;
      std::vector<std::string> changed = lines;
      changed[calls[k]] = call.substr(0, begin) + b + "," + a + call.substr(end);
      damage.inflict(joined(changed), changed[calls[k]]);
    }
  }
  EXPECT_GT(damage.verdicts[Verdict::refuted], 50);
}

// ---- attention in blocks ----

Generated in_blocks(int64_t queries, int64_t keys, bool causal) {
  Cluster cluster = unequal_cluster({1e9});
  Program program = attention_program(queries, keys, causal);
  return generated(program, single_device_plan(program, cluster).program, cluster, true);
}

TEST(SourceDefects, EveryNumberOfAttentionInBlocksCounts) {
  const Generated g = in_blocks(5, 5, true);
  const std::string& text = text_of(g, 0);
  size_t begin = text.find("// Attention block by block");
  ASSERT_NE(begin, std::string::npos);
  ASSERT_EQ(check(g, 0).verdict, Verdict::proved);
  Damage damage(g);
  int number = 0;
  for (const Place& place : numbers(text)) {
    if (place.at < begin || ++number % 2 != 0) continue;
    int64_t value = std::stoll(text.substr(place.at, place.length));
    std::string changed = text.substr(0, place.at) + std::to_string(value + 1) + text.substr(place.at + place.length);
    damage.inflict(changed, line_around(changed, place.at));
  }
  EXPECT_GT(damage.verdicts[Verdict::refuted], 60);
  EXPECT_LT(damage.verdicts[Verdict::unknown], damage.verdicts[Verdict::refuted] / 10);
}

/// Mistakes that only show where there are several blocks.
TEST(SourceDefects, WrongBlocksAreFound) {
  const Generated g = in_blocks(300, 300, true);
  const std::string& text = text_of(g, 0);
  ASSERT_EQ(check(g, 0).verdict, Verdict::proved) << check(g, 0).summary;
  const std::pair<const char*, const char*> edits[] = {
      {"sum_[t - t_begin_] * scale_ + row_sum", "sum_[t - t_begin_] + row_sum"},
      {"max_f32(before_, row_max", "max_f32(row_[0], row_max"},
      {"t_einsum_2[h * 3 + t * 6 + feature_] *= scale_", "t_einsum_2[h * 3 + t * 6 + feature_] *= 1.0f"},
      {"largest_[t - t_begin_] = now_;", "largest_[t - t_begin_] = before_;"},
      {"s_stop_ = t_end_ < 300 ? t_end_", "s_stop_ = t_end_ < 300 ? t_begin_"},
      {"1, s_begin_ > 0);", "1, 0);"},
      {"sum_[t - t_begin_] = 0.0f;", ""},
  };
  for (auto [from, to] : edits) {
    size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from << "\n" << text.substr(text.find("// Attention block by block"), 4000);
    SourceCheck result = check(g, 0, text.substr(0, at) + to + text.substr(at + std::string(from).size()));
    EXPECT_EQ(result.verdict, Verdict::refuted) << from << ": " << result.summary;
    EXPECT_GT(result.line, 0) << from;
  }
}

// ---- several ranks: sentences ----

struct Wrong {
  const char* what;
  const char* from;
  const char* to;
  const char* sentence;
};

class SharedSource : public ::testing::TestWithParam<Wrong> {};

TEST_P(SharedSource, DamageIsTold) {
  const Wrong& wrong = GetParam();
  SourceCheck result = check(shared(), 1, edited(text_of(shared(), 1), wrong.from, wrong.to));
  EXPECT_EQ(result.verdict, Verdict::refuted) << wrong.what;
  EXPECT_THAT(result.summary, HasSubstr(wrong.sentence)) << wrong.what;
  EXPECT_EQ(result.rank, 1);
}

const Wrong wrongs[] = {
    {"a collective is dropped", "  if (hetsynth_all_reduce(context, 16, 0, d_b2, d_b2_reduced, 256, 0, 0)) return 1;\n",
     "", "the number of the all_reduce of d_b2 is 19, but the program says 16"},
    {"the last collective is dropped",
     "  if (hetsynth_all_reduce(context, 28, 0, d_table, d_table_reduced, 1024, 0, 0)) return 1;\n", "",
     "nor anything else the program computes"},
    {"a count too small", "d_b2, d_b2_reduced, 256, 0, 0", "d_b2, d_b2_reduced, 255, 0, 0",
     "the count of the all_reduce of d_b2 is 255, but the program says 256"},
    {"another reduction", "d_b2, d_b2_reduced, 256, 0, 0", "d_b2, d_b2_reduced, 256, 1, 0",
     "the reduction of the all_reduce of d_b2 is 1, but the program says 0"},
    {"another type", "d_b2, d_b2_reduced, 256, 0, 0", "d_b2, d_b2_reduced, 256, 0, 1",
     "the type of the all_reduce of d_b2 is 1, but the program says 0"},
    {"another axis", "hetsynth_all_reduce(context, 16, 0, d_b2", "hetsynth_all_reduce(context, 16, 1, d_b2",
     "the axis of the all_reduce of d_b2 is 1, but the program says 0"},
    {"another tensor is reduced", "16, 0, d_b2, d_b2_reduced", "16, 0, b2, d_b2_reduced",
     "the operand of the all_reduce of d_b2 should be at byte"},
    {"the result is put over the operand", "16, 0, d_b2, d_b2_reduced", "16, 0, d_b2, d_b2",
     "source and destination of the all_reduce of d_b2 overlap"},
    {"the answer is not looked at",
     "  if (hetsynth_all_reduce(context, 16, 0, d_b2, d_b2_reduced, 256, 0, 0)) return 1;",
     "  hetsynth_all_reduce(context, 16, 0, d_b2, d_b2_reduced, 256, 0, 0);", "is not looked at"},
    {"a helper that computes something else", "static inline float tanh_f32(float x) {",
     "static inline float tanh_f32(float x) { x = 2.0f * x;", "the helper function tanh_f32 is not the generator's"},
    {"a helper of a helper", "__builtin_bit_cast(float, bits)", "__builtin_bit_cast(float, bits + 1)",
     "the helper function float_of_bits is not the generator's"},
    {"the context is laid out differently", "  long step;\n  unsigned long seed;",
     "  unsigned long seed;\n  long step;", "HetsynthContext is not the runtime's"},
    {"it does not compile", "extern \"C\" int hetsynth_step(", "extern \"C\" int hetsynth_step(int,, ",
     "the text does not compile"},
    {"another function is run", "int hetsynth_step(", "int hetsynth_step_2(", "there is no function hetsynth_step"},
};
INSTANTIATE_TEST_SUITE_P(Wrong, SharedSource, ::testing::ValuesIn(wrongs));

TEST(SourceDefects, TheOrderOfCollectivesCounts) {
  std::vector<std::string> lines = lines_of(text_of(shared(), 1));
  std::vector<size_t> collectives;
  for (size_t i = 0; i < lines.size(); ++i)
    if (lines[i].find("if (hetsynth_") != std::string::npos) collectives.push_back(i);
  ASSERT_GE(collectives.size(), 5u);
  for (size_t k = 0; k + 1 < collectives.size(); ++k) {
    // Moved behind the next one, so that it still reads what was computed before.
    std::vector<std::string> changed = lines;
    changed[collectives[k]] = "\n";
    changed[collectives[k + 1]] += lines[collectives[k]];
    SourceCheck result = check(shared(), 1, joined(changed));
    EXPECT_EQ(result.verdict, Verdict::refuted) << lines[collectives[k]];
    EXPECT_THAT(result.summary, HasSubstr("the number of the all_reduce")) << lines[collectives[k]];
  }
}

/// What the check does not know is never said to be right.
TEST(SourceDefects, UnknownConstructsAreUnknown) {
  const std::string& text = text_of(alone(), 0);
  size_t body = text.find("char* const arena");
  for (const char* statement : {"while (context->step < 0) {} ", "if (context->step > 5) return 0; ",
                                "static int calls = 0; ++calls; ", "context->seed = 1; ", "__builtin_trap(); "}) {
    SourceCheck result = check(alone(), 0, text.substr(0, body) + statement + text.substr(body));
    EXPECT_EQ(result.verdict, Verdict::unknown) << statement << result.summary;
    EXPECT_GT(result.line, 0);
  }
  EXPECT_EQ(check(alone(), 0, "int global = 1;\n" + text).verdict, Verdict::unknown);
}

TEST(SourceDefects, HostileTextsAreBounded) {
  for (const std::string& text :
       {std::string(), std::string(300000, '('), std::string(100000, '{'), std::string("#include \"/dev/zero\"\n"),
        std::string("/**/ #include \"/dev/zero\"\n"), std::string("%:include \"/dev/zero\"\n"),
        "extern \"C\" int hetsynth_step(void*) { return " + std::string(60000, '-') + "1; }"}) {
    std::vector<DeviceProgram> devices = alone().devices;
    devices[0].files[0].text = text;
    GeneratedCheck result = check_foreign(alone().reference, alone().plan, devices);
    EXPECT_NE(result.verdict, Verdict::proved);
    EXPECT_FALSE(result.worst().summary.empty());
    EXPECT_LT(result.seconds, 20);
  }
}

}  // namespace
}  // namespace hetsynth::test
