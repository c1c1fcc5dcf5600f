// Seconds of one core that proofs take: by depth, by sizes and devices, and for the largest models of examples/.
#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <ctime>

#include "hetsynth/build_paths.h"
#include "synth/planner/synthesize.h"
#include "tests/support/pipelined_plan.h"
#include "tests/support/propagated_plan.h"
#include "tests/support/zoo/walk.h"
#include "verify/verify.h"

namespace {

using namespace hetsynth;
using test::even_axis;
using testing::Settings;

bool contains(const std::string& name, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    if (name.find(part) != std::string::npos) return true;
  return false;
}

/// Batches over axis 0; over axis 1 a transformer's matrices in the manner of Megatron: heads and hidden units.
int megatron(const Node& leaf, int axis) {
  const int rank = int(leaf.type.shape.size());
  if (leaf.kind == NodeKind::input) return axis == 0 ? 0 : -1;
  if (axis != 1 || rank < 2) return -1;
  if (contains(leaf.name, {".out", ".down"})) return 0;
  if (contains(leaf.name, {".query", ".key", ".value", ".up", ".gate"})) return 1;
  return -1;
}

Program traced(const std::string& file, const Settings& settings) {
  testing::ListedModel model;
  model.name = model.file = file;
  return testing::trace_model(model, settings).program;
}

void measure(const std::string& model, const std::string& name, const Program& program, const SpmdProgram& plan) {
  // Without the trial beside it, and what the trial takes more.
  std::clock_t before = std::clock();
  Verification v = verify(program, plan, {.trial_seconds = 0});
  double cpu_seconds = double(std::clock() - before) / CLOCKS_PER_SEC;
  before = std::clock();
  const int trials = verify(program, plan).trials;
  const double both_seconds = double(std::clock() - before) / CLOCKS_PER_SEC;
  int communications = 0;
  for (const Instruction& i : plan.instructions)
    communications += i.opcode != Opcode::compute && i.opcode != Opcode::slice;
  fmt::print("{:<34} {:<22} {:>7} {:>7} {:>7} {:>6} {:>9.3f} {:>6} {:>9.3f}  {}{}\n", model, name,
             plan.mesh.device_count(), plan.instructions.size() - size_t(communications), communications,
             v.distinct_obligations, cpu_seconds, trials, both_seconds, hetsynth::name(v.verdict),
             v.verdict == Verdict::proved ? "" : ": " + v.summary);
  std::fflush(stdout);
}

/// The same plan without the sum of one gradient: how long until it is refuted.
void measure_refutation(const std::string& model, const Program& program, SpmdProgram plan) {
  for (Instruction& i : plan.instructions)
    if (i.opcode == Opcode::all_reduce && program[plan.values[size_t(i.result)].node].phase == Phase::backward) {
      i.opcode = Opcode::broadcast;
      return measure(model, "a gradient's sum missing", program, plan);
    }
}

void gpt_by_depth() {
  const Cluster cluster = load_cluster(HETSYNTH_SOURCE_DIR "/examples/clusters/v100-p100.toml");
  for (int layers : {6, 24, 96}) {
    const Program program =
        traced("gpt.cpp", {{"layers", std::to_string(layers)}, {"width", "384"}, {"heads", "8"}, {"batch", "64"}});
    const std::string model = fmt::format("GPT, {} layers", layers);
    const SpmdProgram data_parallel = data_parallel_plan(program, cluster, RatioRule::proportional).program;
    measure(model, "data", program, data_parallel);
    measure_refutation(model, program, data_parallel);
    measure(model, "data x tensor", program,
            test::propagated_plan(program, {even_axis("dp", 8, 64), even_axis("tp", 8, 8)}, megatron));
  }
}

void llama_by_size() {
  for (const auto& [layers_of, hosts] : {std::pair{"7B", 2}, {"8B", 64}, {"405B", 2048}}) {
    const Program program = traced("llama.cpp", {{"size", layers_of}, {"batch", "2048"}});
    measure(fmt::format("LLaMA {}", layers_of), "data x tensor", program,
            test::propagated_plan(program, {even_axis("dp", hosts, 2048), even_axis("tp", 8, 8)}, megatron));
  }
  constexpr int stages = 16;
  const Program program = traced("llama.cpp", {{"size", "405B"}, {"batch", "2048"}});
  const SpmdProgram plan = test::pipelined_plan(
      program, test::propagated_plan(program, {even_axis("dp", 128, 2048), even_axis("tp", 8, 8)}, megatron), stages);
  measure("LLaMA 405B", "pipeline x data x tensor", program, plan);
  measure_refutation("LLaMA 405B", program, plan);
}

void large_models() {
  for (const testing::ListedModel& model : testing::listed_models())
    if (contains(model.name, {"BERT-MoE", "Inception", "T5"})) {
      const Program program = traced(model.file, model.published);
      measure(model.name, "data", program,
              test::propagated_plan(program, {even_axis("dp", 8, 8)}, test::batch_and_columns));
      measure(model.name, "data x columns", program,
              test::propagated_plan(program, {even_axis("dp", 8, 8), even_axis("tp", 8, 8)}, test::batch_and_columns));
    }
}

}  // namespace

int main() {
  fmt::print("{:<34} {:<22} {:>7} {:>7} {:>7} {:>6} {:>9} {:>6} {:>9}\n", "model", "plan", "devices", "local", "moves",
             "proofs", "core s", "trials", "with them");
  gpt_by_depth();
  llama_by_size();
  large_models();
}
