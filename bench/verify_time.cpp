// Seconds to prove plans of the GPT of examples/gpt.cpp, by depth: the searched plan and data parallelism over 64
// devices.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "dsl/ir/differentiate.h"
#include "dsl/ir/trace.h"
#include "hetsynth/hetsynth.h"
#include "synth/synthesize.h"
#include "verify/verify.h"

namespace gpt {
#include "examples/gpt.cpp"
#include "hetsynth/build_paths.h"
}  // namespace gpt

namespace {

using namespace hetsynth;

Program gpt_of(int layers) {
  Trace trace("gpt.cpp", {{"layers", std::to_string(layers)}, {"width", "384"}, {"heads", "6"}, {"batch", "64"}});
  run_builder(trace, gpt::model);
  return differentiate(trace);
}

void measure(int layers, const char* name, const Program& program, const Plan& plan) {
  std::clock_t before = std::clock();
  Verification v = verify(program, plan.program);
  double cpu_seconds = double(std::clock() - before) / CLOCKS_PER_SEC;
  fmt::print(
      "{:>3} layers  {:<14} {:>6} instructions  {:>6} obligations, {:>4} of them different  {:.3f} s ({:.3f} s of a "
      "core)  {}{}\n",
      layers, name, plan.program.instructions.size(), v.obligations, v.distinct_obligations, v.seconds, cpu_seconds,
      hetsynth::name(v.verdict), v.verdict == Verdict::proved ? "" : ": " + v.summary);
  std::fflush(stdout);
}

/// The same plan without the sum of one gradient: how long until it is refuted.
void measure_refutation(int layers, const Program& program, Plan plan) {
  for (Instruction& i : plan.program.instructions)
    if (i.opcode == Opcode::all_reduce && program[plan.program.values[i.result].node].phase == Phase::backward) {
      i.opcode = Opcode::broadcast;
      return measure(layers, "a sum missing", program, plan);
    }
}

}  // namespace

int main(int argc, char** argv) {
  Cluster cluster = load_cluster(HETSYNTH_SOURCE_DIR "/examples/clusters/v100-p100.toml");
  std::vector<int> depths = {6, 24, 96};
  if (argc > 1) depths = {std::atoi(argv[1])};
  for (int layers : depths) {
    Program program = gpt_of(layers);
    Plan data_parallel = data_parallel_plan(program, cluster, RatioRule::proportional);
    measure(layers, "data parallel", program, data_parallel);
    measure_refutation(layers, program, data_parallel);
    measure(layers, "searched", program, synthesize(program, cluster, {.time_limit_seconds = 20.0, .progress = {}}));
  }
}
