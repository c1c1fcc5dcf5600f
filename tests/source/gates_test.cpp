// Gates: which expert a token goes to is computed in the loops over tokens that count how many went to each, so that
// the place that is counted at follows from nothing in memory. Right text is accepted, and wrong text found, with so
// many tokens that few of them are looked at.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "synth/baselines/baseline_plans.h"
#include "tests/codegen/harness.h"
#include "tests/source/fixture.h"

namespace hetsynth::test {
namespace {

/// `sequences` of 64 tokens, two of 16 experts for each.
Generated gates(int64_t sequences) {
  Trace trace("model.cpp");
  run_builder(trace, [&] {
    const Tensor x = synthetic_batch(sequences, 64 * 8, 3).samples;
    const Tensor tokens = reshape(x, {sequences, 64, 8});
    const Routing routing = top2_gating(matmul(tokens, parameter("gate", {8, 16}, normal(0.1))), 1.25);
    const Tensor up = parameter("up", {16, 8, 8}, normal(0.1));
    const Tensor out = expert_combine(einsum("bepc,ecf->bepf", expert_dispatch(tokens, routing), up), routing);
    minimize(mean(square(out)) + routing.balance_loss, SGD{.learning_rate = 0.5, .momentum = 0});
  });
  const Program program = differentiate(trace);
  const Cluster cluster = unequal_cluster({1e9});
  return generated(program, single_device_plan(program, cluster).program, cluster);
}

TEST(Gates, ThatAreRightPass) {
  for (int64_t sequences : {3, 3000}) {
    const Generated g = gates(sequences);
    const SourceCheck found = check(g, 0);
    EXPECT_EQ(found.verdict, Verdict::proved) << found.summary << "\n" << g.devices[0].files.front().text;
  }
}

TEST(Gates, ThatAreDamagedAreFound) {
  for (int64_t sequences : {3, 400}) {
    const Generated g = gates(sequences);
    const std::string& text = g.devices[0].files.front().text;
    const std::string kernel = "long t_queue_length_at_", length = "t_queue_length[i0 * 16 + t_queue_length_at_]",
                      load = "t_expert_load[i0 * 16 + t_expert_load_at_]";
    const std::pair<std::string, std::string> edits[] = {
        {length, "t_queue_length[i0 * 16 + 15 - t_queue_length_at_]"},
        {length, "t_queue_length[(i0 / 2 * 2) * 16 + t_queue_length_at_]"},
        {length, "t_queue_length[i0 * 15 + t_queue_length_at_]"},
        {"t_queue_length_at_ < 16", "t_queue_length_at_ < 15"},
        {"t_queue_length_at_ < 16", "t_queue_length_at_ < 16 && i1 != 5"},
        {"t_queue_length_at_ < 16", "t_queue_length_at_ < 16 && t_queue_length_at_ != 3"},
        {length + " += 1.0f", length + " += (float)(i1 < 63)"},
        {length + " += 1.0f", length + " = 1.0f"},
        {load + " += ", load + " += -"},
        {"t_expert_load_at_ = t_to_int_", "t_expert_load_at_ = 15 - t_to_int_"},
        {"t_pick_at_ = t_to_int_", "t_pick_at_ = 15 - t_to_int_"},
        {"? -1e+30f", "? 1e+30f"},
        {"t_sum_2[i0 * 16 + r2] += t_div_", "t_sum_2[i0 * 16 + (r2 + 1) % 16] += t_div_"},
        {"-(float)r2 : -15.0f", "-(float)r2 : -14.0f"},
        {"t_gate_others_row_[r2] == t_max_3_", "t_gate_others_row_[15 - r2] == t_max_3_"}};
    for (const auto& [before, after] : edits) {
      if (sequences > 3 && before != "t_queue_length_at_ < 16") continue;
      const SourceCheck found = check(g, 0, replaced(text, kernel, before, after));
      EXPECT_NE(found.verdict, Verdict::proved) << sequences << " sequences: " << before << " as " << after;
      if (sequences > 3) continue;  // to show what is wrong, everything is executed, which may take too long
      EXPECT_EQ(found.verdict, Verdict::refuted)
          << sequences << " sequences: " << before << " as " << after << ": " << found.summary;
    }
  }
}

}  // namespace
}  // namespace hetsynth::test
