// Damage in the kernels of a cuda rank, and in how they are launched, is found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsl/ir/trace.h"
#include "hetsynth/hetsynth.h"
#include "synth/baselines/baselines.h"
#include "tests/codegen/harness.h"
#include "tests/codegen/models.h"
#include "tests/source/fixture.h"

namespace hetsynth::test {
namespace {

using ::testing::HasSubstr;

Generated on_one_device(Program program) {
  const Cluster cluster = cuda_devices({1e9});
  const SpmdProgram plan = single_device_plan(program, cluster).program;
  return generated_for_cuda(program, plan, cluster);
}

const Generated& mlp() {
  static const Generated g = on_one_device(mlp_program());
  return g;
}
const Generated& gpt() {
  static const Generated g = on_one_device(gpt_program());
  return g;
}
const Generated& attention() {
  static const Generated g = on_one_device(attention_program(80, 80, true));
  return g;
}

/// By tensor cores, in several tiles of either side.
const Generated& tensor_attention() {
  static const Generated g = on_one_device(attention_program(150, 150, true, 16, "bf16"));
  return g;
}
const Generated& fp16_attention() {
  static const Generated g = on_one_device(attention_program(150, 150, true, 16, "fp16"));
  return g;
}
/// Products, and kernels that round what they read.
const Generated& fp16_gpt() {
  static const Generated g = on_one_device(gpt_program(
      {{"layers", "1"}, {"heads", "2"}, {"width", "8"}, {"batch", "4"}, {"seq", "6"}, {"precision", "fp16"}}));
  return g;
}

/// An element by element product that walks the rows and columns of a sum, and straddles both.
const Generated& product_beside_a_sum() {
  static const Generated g = [] {
    Trace trace("model.cpp");
    run_builder(trace, [] {
      Tensor x = parameter("x", {3, 10, 4}, normal(1)), scale = parameter("scale", {3, 1, 1}, normal(1));
      output("y", x * scale);
      output("z", sum(x, 1));
    });
    for (Node& node : trace.program.nodes)
      if (node.name.empty()) node.name = std::string(node.tag());
    return on_one_device(trace.program);
  }();
  return g;
}

TEST(KernelSource, OfAttentionBetweenOperandsOf16BitsPasses) {
  Cluster plain = cuda_devices({1e9});
  plain.devices[0].architecture = "sm_70";
  const auto without = [&](const std::string& precision) {
    const Program program = attention_program(80, 80, true, 16, precision);
    return generated_for_cuda(program, single_device_plan(program, plain).program, plain);
  };
  const Generated bf16 = without("bf16"), fp16 = without("fp16");
  EXPECT_THAT(fp16_attention().devices[0].files[1].text, HasSubstr("mma_fp16(t_einsum_part"));
  for (const Generated* g : {&bf16, &fp16, &tensor_attention(), &fp16_attention(), &fp16_gpt()}) {
    const SourceCheck found = check(*g, 0);
    EXPECT_EQ(found.verdict, Verdict::proved) << "line " << found.line << ": " << found.summary;
  }
}

struct Damage {
  const char* name;
  const Generated& (*of)();
  const char *after, *from, *to;
  const char* told;
};

class KernelDamage : public ::testing::TestWithParam<Damage> {};

TEST_P(KernelDamage, IsTold) {
  const Damage& d = GetParam();
  const SourceCheck found = check_kernels(d.of(), 0, replaced(d.of().devices[0].files[1].text, d.after, d.from, d.to));
  EXPECT_EQ(found.verdict, Verdict::refuted) << found.summary;
  EXPECT_THAT(found.summary, HasSubstr(d.told));
  EXPECT_GT(found.line, 0);
}

constexpr const char* first_kernel = "extern \"C\"";
const Damage damages[] = {
    {"a_row_too_few", mlp, first_kernel, "; row < ", "; row < -1 + ", ""},
    {"a_sum_that_begins_at_one", mlp, first_kernel, "_ = 0.0f;", "_ = 1.0f;", "by the text and"},
    {"a_maximum_of_nothing", gpt, first_kernel, " = max_f32(", " = min_f32(", "by the text and"},
    {"another_sum_over_the_warp", gpt, first_kernel, "warp_sum(", "warp_max(", "by the text and"},
    {"half_of_the_row", gpt, first_kernel, "= lane; column < ", "= lane; column < 1 + 0 * ", "by the text and"},
    {"every_lane_stores", gpt, first_kernel, "if (lane == 0) ", "", "written twice"},
    {"another_learning_rate", mlp, "adamw_parameter", "0.001f", "0.002f", "by the text and"},
    {"another_lookup", gpt, "embedding", "hit_here = ", "hit_here = 1 + ", "by the text and"},
    {"no_barrier", attention, first_kernel, "__syncthreads();", "", "which one is first"},
    {"sums_are_not_rescaled", attention, first_kernel, "*= scale;", "*= 1.0f;", "by the text and"},
    {"a_row_by_a_counter_of_elements", product_beside_a_sum, "= sum", "x[at_i02 *", "x[at_i0 *", "by the text and"},
    {"an_element_by_its_column_alone", product_beside_a_sum, "= sum", "at / 40", "column / 3 % 3", "by the text and"},
    {"a_tile_is_left_out", attention, first_kernel, "? seen : ", "? seen - 32 : ", "by the text and"},
    {"no_barrier_of_tensor_cores", tensor_attention, " attention_", "__syncthreads();", "", "which one is first"},
    {"another_fragment", tensor_attention, " attention_", "+ deep * 16, 24);", "+ deep * 16, 16);", ""},
    {"the_same_panel_twice", tensor_attention, " attention_", "right + 4);", "right);", "by the text and"},
    {"a_tile_of_rows_by_columns", tensor_attention, " attention_", "load_right_by_rows(", "load_right(",
     "by the text and"},
    {"another_mask", tensor_attention, " attention_", "(at_t < at_s ?", "(at_t < at_s + 1 ?", "by the text and"},
    {"the_mask_is_left_out_too_early", tensor_attention, " attention_", " <= row_begin + warp * ",
     " - 32 <= row_begin + warp * ", "by the text and"},
    {"half_of_a_fragment_is_rounded", tensor_attention, " attention_", "panel % 2 * 4 + 2, ", "panel % 2 * 4 + 0, ",
     ""},
    {"too_long_a_list", attention, first_kernel, "largest[i] = now;", "largest[i + 100] = now;",
     "outside of its bounds"},
};

INSTANTIATE_TEST_SUITE_P(Seeded, KernelDamage, ::testing::ValuesIn(damages),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(KernelSource, DamagedLaunchesAreFound) {
  const std::string& host = mlp().devices[0].files[0].text;
  const auto found = [&](const std::string& from, const std::string& to) {
    return check(mlp(), 0, replaced(host, "hetsynth_step", from, to));
  };
  const std::string fewer =
      replaced(attention().devices[0].files[0].text, "compute_stream, kernel_attention", ", 256, ", ", 128, ");
  EXPECT_EQ(check(attention(), 0, fewer).verdict, Verdict::refuted);
  EXPECT_THAT(found(", 256, ", ", 512, ").summary, HasSubstr("but is made for at most 256"));
  EXPECT_EQ(found("compute_stream, kernel_", "compute_stream, 1 + kernel_").verdict, Verdict::refuted);
  EXPECT_THAT(found("compute_stream, kernel_", "compute_stream, 1000 + kernel_").summary,
              HasSubstr("there is no kernel"));
  // The table that the runtime loads kernels by counts, not the names of their numbers.
  const std::string table = "const char* const hetsynth_kernels[] = {\n";
  EXPECT_THAT(check(mlp(), 0, replaced(host, table, "compute_", "compute_other_")).summary,
              HasSubstr("there is no kernel compute_other_"));
  EXPECT_THAT(check(mlp(), 0, replaced(host, "", "context, stream, kernel", "context, 0, kernel")).summary,
              HasSubstr("not the generator's"));
}

TEST(KernelSource, HelpersAreTheGenerators) {
  const std::string& text = mlp().devices[0].files[1].text;
  const SourceCheck found = check_kernels(mlp(), 0, replaced(text, "float warp_sum", "value += ", "value -= "));
  EXPECT_EQ(found.verdict, Verdict::refuted);
  EXPECT_THAT(found.summary, HasSubstr("the functions that kernels lean on are not the generator's"));
}

TEST(KernelSource, NothingIsSaidOfWhatIsNotKnown) {
  const std::string& text = mlp().devices[0].files[1].text;
  const SourceCheck found = check_kernels(mlp(), 0, replaced(text, first_kernel, "{\n", "{\n  while (false) {}\n"));
  EXPECT_EQ(found.verdict, Verdict::unknown);
  EXPECT_THAT(found.summary, HasSubstr("WhileStmt"));
  EXPECT_GT(found.line, 0);
}

}  // namespace
}  // namespace hetsynth::test
