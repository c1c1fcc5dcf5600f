// examples/lora.cpp and lora_llama.cpp: what is frozen costs nothing but its forward pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "synth/baselines/baselines.h"
#include "synth/planner/synthesize.h"
#include "tests/support/zoo/walk.h"
#include "verify/verify.h"

namespace hetsynth::testing {
namespace {

const ListedModel& model_named(const std::string& name) {
  static const std::vector<ListedModel> models = listed_models();
  return *std::ranges::find(models, name, &ListedModel::name);
}

bool is_adapter(const std::string& name) {
  return name.find(".lora_a") != std::string::npos || name.find(".lora_b") != std::string::npos;
}

struct Counts {
  int64_t trained = 0, state = 0;
  size_t frozen = 0;
};

/// Counts what is trained and what its optimizer keeps, and holds that nothing is computed for what is frozen.
Counts counts_of(const ListedModel& model, const Settings& settings) {
  const Program program = trace_model(model, settings).program;
  Counts out;
  std::set<std::string> frozen;
  for (const Node& node : program.nodes) {
    if (node.kind == NodeKind::parameter && !is_adapter(node.name)) frozen.insert(node.name);
    if (node.kind == NodeKind::parameter && is_adapter(node.name)) out.trained += element_count(node.type.shape);
    if (node.kind == NodeKind::state) out.state += element_count(node.type.shape);
  }
  for (const Update& update : program.updates) EXPECT_FALSE(frozen.contains(program[update.target].name));
  for (const Node& node : program.nodes)
    EXPECT_FALSE(node.name.starts_with("d_") && frozen.contains(node.name.substr(2))) << node.name;
  EXPECT_EQ(out.state, 2 * out.trained + 1) << "two moments, and the adapters' scale";
  out.frozen = frozen.size();
  return out;
}

/// 294,912 is what peft tells of GPT-2 with adapters of rank 8 on c_attn.
TEST(Adapters, AloneHaveGradientsAndOptimizerState) {
  const ListedModel& model = model_named("GPT-2 124M LoRA");
  const Counts counts = counts_of(model, model.published);
  EXPECT_EQ(counts.trained, 294'912);
  EXPECT_EQ(counts.frozen, 196u);
}

/// What get_nb_trainable_parameters of peft 0.13.2 tells of transformers' models of these sizes, made without numbers
/// (torch.device("meta")): of rank 8 on q_proj, k_proj, v_proj and o_proj, of LLaMA 7B on q_proj and v_proj, and of
/// rank 16 on all seven.
TEST(Adapters, OfALlamaAreAsManyAsPeftTells) {
  const ListedModel& model = model_named("Llama 3 8B LoRA");
  EXPECT_EQ(counts_of(model, model.published).trained, 6'815'744);
  EXPECT_EQ(counts_of(model, model.published).frozen, 32u * 9 + 3);
  EXPECT_EQ(counts_of(model, {{"size", "7B"}, {"adapters", "query-value"}}).trained, 4'194'304);
  EXPECT_EQ(counts_of(model, {{"size", "8B"}, {"adapters", "all"}, {"rank", "16"}}).trained, 41'943'040);
  EXPECT_EQ(counts_of(model_named("TinyLlama 1.1B LoRA"), {}).trained, 2'252'800);
}

/// In a step of which every device does a part of the batch, what is communicated are gradients of adapters and sums of
/// single numbers; and so it is in the plan that is found, whose devices may hold parts of activations besides.
void expect_adapters_alone_communicated(const ListedModel& model, const Settings& settings, int64_t count) {
  const Program program = trace_model(model, settings).program;
  const Cluster three = three_uneven_devices();
  const auto communicated = [&](const SpmdProgram& plan) {
    std::set<std::string> names;
    for (const Instruction& instruction : plan.instructions)
      if (communicates(instruction.opcode)) names.insert(program[plan.values[size_t(instruction.result)].node].name);
    return names;
  };
  int64_t of_adapters = 0;
  for (const std::string& name : communicated(data_parallel_plan(program, three, RatioRule::proportional).program)) {
    const auto node = std::ranges::find(program.nodes, name, &Node::name);
    if (element_count(node->type.shape) == 1) continue;
    EXPECT_TRUE(name.starts_with("d_") && is_adapter(name)) << name;
    ++of_adapters;
  }
  EXPECT_EQ(of_adapters, count);
  const Plan found = synthesize(program, three, {.time_limit_seconds = 5, .progress = {}});
  for (const std::string& name : communicated(found.program))
    for (const Node& node : program.nodes)
      EXPECT_FALSE(node.kind == NodeKind::parameter && !is_adapter(node.name) && name == "d_" + node.name) << name;
}

TEST(Adapters, AloneAreCommunicated) {
  const ListedModel& model = model_named("GPT-2 124M LoRA");
  expect_adapters_alone_communicated(model, model.tiny, 2 * 4);  // A, and B of query, key and value, of two layers
}

TEST(Adapters, OfALlamaAreCommunicatedAlone) {
  const ListedModel& model = model_named("TinyLlama 1.1B LoRA");
  expect_adapters_alone_communicated(model, model.tiny, 2 * 2 * 4);
  expect_adapters_alone_communicated(model, {{"size", "tiny"}, {"adapters", "all"}}, 2 * 2 * 7);
}

/// All projections at once, which the walk over all models has in their default size and choice alone.
TEST(Adapters, OnAllProjectionsTrainAlikeOnOneRankAndOnThree) {
  const TracedModel traced = trace_model(model_named("TinyLlama 1.1B LoRA"), {{"size", "tiny"}, {"adapters", "all"}});
  const Cluster three = three_uneven_devices();
  const Plan plan = synthesize(traced.program, three, {.time_limit_seconds = 5, .progress = {}});
  const Verification proof = verify(traced.program, plan.program);
  EXPECT_EQ(proof.verdict, Verdict::proved) << proof.summary;
  const TwoRuns runs = train_on_both(traced.program, plan, three, 20);
  EXPECT_LT(runs.largest_difference(), loss_bound) << ::testing::PrintToString(runs.alone) << "\n"
                                                   << ::testing::PrintToString(runs.together);
  EXPECT_LT(runs.alone.back(), runs.alone.front());
}

}  // namespace
}  // namespace hetsynth::testing
