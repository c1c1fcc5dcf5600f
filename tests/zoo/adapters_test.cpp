// examples/lora.cpp: what is frozen costs nothing but its forward pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "synth/baselines/baselines.h"
#include "synth/planner/synthesize.h"
#include "tests/support/zoo/walk.h"

namespace hetsynth::testing {
namespace {

const ListedModel& model_named(const std::string& name) {
  static const std::vector<ListedModel> models = listed_models();
  return *std::ranges::find(models, name, &ListedModel::name);
}

bool is_adapter(const std::string& name) {
  return name.find(".lora_a") != std::string::npos || name.find(".lora_b") != std::string::npos;
}

/// 294,912 is what peft tells of GPT-2 with adapters of rank 8 on c_attn.
TEST(Adapters, AloneHaveGradientsAndOptimizerState) {
  const ListedModel& model = model_named("GPT-2 124M LoRA");
  const Program program = trace_model(model, model.published).program;
  int64_t trained = 0, state = 0;
  std::set<std::string> frozen;
  for (const Node& node : program.nodes) {
    if (node.kind == NodeKind::parameter && !is_adapter(node.name)) frozen.insert(node.name);
    if (node.kind == NodeKind::parameter && is_adapter(node.name)) trained += element_count(node.type.shape);
    if (node.kind == NodeKind::state) state += element_count(node.type.shape);
  }
  EXPECT_EQ(trained, 294'912);
  EXPECT_EQ(state, 2 * trained + 1) << "two moments, and the adapters' scale";
  EXPECT_EQ(frozen.size(), 196u);
  for (const Update& update : program.updates) EXPECT_FALSE(frozen.contains(program[update.target].name));
  for (const Node& node : program.nodes)
    EXPECT_FALSE(node.name.starts_with("d_") && frozen.contains(node.name.substr(2))) << node.name;
}

/// In a step of which every device does a part of the batch, what is communicated are gradients of adapters and sums of
/// single numbers; and so it is in the plan that is found, whose devices may hold parts of activations besides.
TEST(Adapters, AloneAreCommunicated) {
  const ListedModel& model = model_named("GPT-2 124M LoRA");
  const Program program = trace_model(model, model.tiny).program;
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
  EXPECT_EQ(of_adapters, 2 * 4) << "A, and B of query, key and value, of two layers";
  const Plan found = synthesize(program, three, {.time_limit_seconds = 5, .progress = {}});
  for (const std::string& name : communicated(found.program))
    EXPECT_FALSE(name.starts_with("d_") && name.ends_with(".weight")) << name;
}

}  // namespace
}  // namespace hetsynth::testing
