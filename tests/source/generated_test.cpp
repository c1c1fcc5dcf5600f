// Generated programs pass the check, whatever the plan.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "synth/planner/synthesize.h"
#include "tests/codegen/harness.h"
#include "tests/codegen/models.h"
#include "tests/codegen/random_program.h"
#include "tests/source/fixture.h"
#include "tests/support/pipelined_plan.h"

namespace rnnlm_example {
#include "examples/rnnlm.cpp"
}

namespace hetsynth::test {
namespace {

void expect_all_pass(const Generated& g) {
  for (size_t rank = 0; rank < g.devices.size(); ++rank) {
    SourceCheck result = check(g, int(rank));
    EXPECT_EQ(result.verdict, Verdict::proved)
        << "rank " << rank << " line " << result.line << ": " << result.summary << "\n"
        << g.devices[rank].files.front().text;
    EXPECT_GT(result.statements, 5);
  }
}

TEST(GeneratedSource, OfOneDevicePasses) {
  for (Program program : {mlp_program(), gpt_program()}) {
    Cluster cluster = unequal_cluster({1e9});
    expect_all_pass(generated(program, single_device_plan(program, cluster).program, cluster));
  }
}

TEST(GeneratedSource, OfDataParallelPlansPasses) {
  for (Program program : {mlp_program(), gpt_program()}) {
    Cluster cluster = unequal_cluster({1e9, 3e9, 2e9});
    expect_all_pass(generated(program, data_parallel_plan(program, cluster, RatioRule::proportional).program, cluster));
  }
}

TEST(GeneratedSource, OfSynthesizedPlansPasses) {
  for (Program program : {mlp_program(), gpt_program()}) {
    Cluster cluster = unequal_cluster({1e9, 2.5e9});
    SynthesisOptions options;
    options.time_limit_seconds = 3;
    expect_all_pass(generated(program, synthesize(program, cluster, options).program, cluster));
  }
}

/// Nests and kernels of which one reads what another makes, as it is or elsewhere.
RC_GTEST_PROP(GeneratedSource, OfRandomProgramsPasses, ()) {
  const Program program = simplify(random_program());  // of equal values any may be where one should be
  RC_PRE(!program.outputs.empty());
  const Cluster cpu = unequal_cluster({1e9}), gpu = cuda_devices({1e9});
  for (const Generated& g : {generated(program, single_device_plan(program, cpu).program, cpu),
                             generated_for_cuda(program, single_device_plan(program, gpu).program, gpu)}) {
    const SourceCheck result = check(g, 0);
    if (result.verdict != Verdict::proved)
      RC_FAIL(fmt::format("line {}: {}\n{}", result.line, result.summary, g.devices[0].files.back().text));
  }
}

/// Scores exist a block at a time: weights are scaled as the maximum grows, and made again for the gradient.
TEST(GeneratedSource, OfAttentionInBlocksPasses) {
  Program program = gpt_program();
  for (const std::vector<double>& speeds : {std::vector<double>{1e9}, std::vector<double>{1e9, 3e9}}) {
    Cluster cluster = unequal_cluster(speeds);
    Plan plan = speeds.size() == 1 ? single_device_plan(program, cluster) : data_parallel_plan(program, cluster);
    Generated g = generated(program, plan.program, cluster, true);
    EXPECT_NE(g.devices[0].files[0].text.find(" attention_"), std::string::npos);
    expect_all_pass(g);
  }
}

/// Several blocks of queries and of keys, the last ones smaller, with and without hidden scores.
TEST(GeneratedSource, OfAttentionInSeveralBlocksPasses) {
  for (bool causal : {true, false}) {
    Program program = attention_program(causal ? 300 : 150, 300, causal);
    Cluster cluster = unequal_cluster({1e9});
    Generated g = generated(program, single_device_plan(program, cluster).program, cluster, true);
    EXPECT_NE(g.devices[0].files[0].text.find("t_begin_ += 64"), std::string::npos);
    expect_all_pass(g);
  }
}

/// Weights are rounded to 16 bits before they are divided by their sum, and in the program behind it.
TEST(GeneratedSource, OfAttentionBetweenOperandsOf16BitsPasses) {
  for (const std::string precision : {"bf16", "fp16"})
    for (bool causal : {true, false}) {
      Program program = attention_program(70, 70, causal, 3, precision);
      Cluster cluster = unequal_cluster({1e9});
      Generated g = generated(program, single_device_plan(program, cluster).program, cluster, true);
      EXPECT_NE(g.devices[0].files[0].text.find(precision + " t_cast"), std::string::npos);
      expect_all_pass(g);
    }
}

TEST(GeneratedSource, Of16BitsMicroBatchesCheckpointsAndTurnsPasses) {
  Settings tiny{{"layers", "2"}, {"heads", "2"}, {"width", "12"}, {"batch", "6"}, {"seq", "6"}};
  for (auto [option, value] : {std::pair("precision", "bf16"),
                               {"precision", "fp16"},
                               {"micro_batches", "2"},
                               {"checkpoint", "1"},
                               {"turns", "3"},
                               {"turns", "2+1"}}) {
    Settings settings = tiny;
    settings[option] = value;
    if (option == std::string("turns")) settings["dropout"] = "0.1";
    Program program = gpt_program(settings);
    Cluster cluster = unequal_cluster({1e9, 2e9});
    SCOPED_TRACE(option + std::string(" ") + value);
    expect_all_pass(generated(program, data_parallel_plan(program, cluster).program, cluster, true));
  }
}

/// Rows longer than a chunk are passed over in pieces; the norm of a long bias is such a row, the only one of its
/// kernel.
TEST(GeneratedSource, OfLongRowsPasses) {
  Trace trace("rnnlm.cpp",
              Settings{{"layers", "1"}, {"hidden", "2"}, {"words", "5000"}, {"steps_unrolled", "2"}, {"batch", "3"}});
  run_builder(trace, rnnlm_example::model);
  Program program = differentiate(trace);
  Cluster cluster = unequal_cluster({1e9, 2e9});
  expect_all_pass(generated(program, data_parallel_plan(program, cluster, RatioRule::proportional).program, cluster));
}

/// Layers on different devices, with sends between them.
TEST(GeneratedSource, OfStagesPasses) {
  for (Program program : {mlp_program(), gpt_program()}) {
    Cluster two = unequal_cluster({1e9, 3e9}), four = unequal_cluster({1e9, 3e9, 1e9, 3e9});
    const SpmdProgram plan = data_parallel_plan(program, two, RatioRule::proportional).program;
    expect_all_pass(generated(program, pipelined_plan(program, plan, 2), four, true));
  }
}

/// Loops over time steps on stages of their own.
TEST(GeneratedSource, OfLoopsOnStagesPasses) {
  Trace trace("rnnlm.cpp",
              Settings{{"layers", "2"}, {"hidden", "4"}, {"words", "30"}, {"steps_unrolled", "3"}, {"batch", "6"}});
  run_builder(trace, rnnlm_example::model);
  Program program = differentiate(trace);
  ASSERT_FALSE(program.loops.empty());
  Cluster two = unequal_cluster({1e9, 3e9}), four = unequal_cluster({1e9, 3e9, 1e9, 3e9});
  const SpmdProgram plan = data_parallel_plan(program, two, RatioRule::proportional).program;
  expect_all_pass(generated(program, pipelined_plan(program, plan, 2), four, true));
}

TEST(GeneratedSource, OfARankWithoutSamplesPasses) {
  Program program = mlp_program();
  Cluster cluster = unequal_cluster({1e9, 1e9});
  SpmdProgram plan = data_parallel_plan(program, cluster).program;
  for (BoundaryTable& table : plan.tables) table.bounds = {0, table.extent, table.extent};
  expect_all_pass(generated(program, plan, cluster));
}

/// However little may be looked at, right text is not refuted, and wrong text does not pass.
TEST(GeneratedSource, ACheckThatMayTakeLittleSaysThatItDoesNotKnow) {
  const Program program = gpt_program();
  const Cluster cluster = unequal_cluster({1e9});
  Generated g = generated(program, single_device_plan(program, cluster).program, cluster);
  std::set<Verdict> met;
  for (const bool wrong : {false, true}) {
    if (wrong) {
      std::string& text = g.devices[0].files.front().text;
      const size_t at = text.rfind(" * ");
      ASSERT_NE(at, std::string::npos);
      text.replace(at, 3, " + ");
    }
    for (int64_t work = 1; work < 100'000'000; work *= 3) {
      SourceOptions options = source_options();
      options.work_in_all = work;
      const SourceCheck result = check_source(g.reference, g.plan, rank_source(g.devices[0]), options);
      met.insert(result.verdict);
      if (result.verdict == Verdict::unknown) {
        EXPECT_TRUE(result.out_of_work) << result.summary;
      } else {
        EXPECT_EQ(result.verdict, wrong ? Verdict::refuted : Verdict::proved) << work << ": " << result.summary;
      }
    }
  }
  EXPECT_EQ(met.size(), 3u);
}

}  // namespace
}  // namespace hetsynth::test
