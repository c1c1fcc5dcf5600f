// Mutants of the generated source of every model in examples/ at a tiny size, on one cpu device: what the check of
// source says of them, held against what they do when they are run. One that passes must leave the same parameters,
// states and loss.
//   bench_mutation_source [mutants per model = 40] [seed = 1] [part of a model's name]
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "codegen/abi.h"
#include "dsl/jit/compiled_code.h"
#include "runtime/abi.h"
#include "runtime/generated_check.h"
#include "runtime/launch.h"
#include "synth/synthesize.h"
#include "tests/support/source_edits.h"
#include "tests/support/zoo/walk.h"

namespace {

using namespace hetsynth;

/// How a text is run: the number of the step, how large real numbers are, and below what integers are.
struct Run {
  int64_t step;
  double scale;
  unsigned classes;
};
constexpr Run runs[] = {{3, 0.5, 4}, {2000, 3, 4}};
/// Sums of other orders differ by rounding. Far more than what mistakes change is not expected of them.
constexpr double tolerance = 1e-3;

/// Parameters, states and loss after one step of this text.
std::vector<double> executed(const Program& program, const DeviceProgram& device, const std::string& text,
                             const Run& run) {
  CompileOptions options;
  options.optimization = 1;
  std::map<std::string, void*> symbols;
  for (const auto& [name, address] : abi_symbols()) symbols[name] = address;
  const NativeModule module = load_native(text, options, symbols);
  std::vector<char> memory(size_t(device.arena_bytes) + 128, 0);
  char* arena = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
  std::mt19937_64 random(7);
  for (const Slot& leaf : device.leaves)
    for (int64_t i = 0; i < part_elements(leaf.ranges); ++i) {
      if (leaf.dtype == DType::i32)
        reinterpret_cast<int*>(arena + leaf.offset_bytes)[i] = int(random() % run.classes);
      else if (leaf.dtype == DType::f32)
        reinterpret_cast<float*>(arena + leaf.offset_bytes)[i] =
            float(run.scale * (2 * double(random() >> 11) * 0x1p-53 - 1));
    }
  HetsynthContext context{arena, run.step, 11, nullptr, nullptr, nullptr};
  module.function<int(HetsynthContext*)>("hetsynth_step")(&context);
  std::vector<double> out{*reinterpret_cast<float*>(arena + device.loss.offset_bytes)};
  for (const Slot& leaf : device.leaves)
    if (program[leaf.node].kind != NodeKind::input && leaf.dtype == DType::f32)
      for (int64_t i = 0; i < part_elements(leaf.ranges); ++i)
        out.push_back(reinterpret_cast<float*>(arena + leaf.offset_bytes)[i]);
  return out;
}

bool alike(const std::vector<double>& a, const std::vector<double>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (!(std::abs(a[i] - b[i]) <= tolerance * std::max(std::abs(a[i]), std::abs(b[i])) + 1e-6)) return a[i] == b[i];
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const size_t most = argc > 1 ? size_t(std::atoi(argv[1])) : 40;
  const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const char* wanted = argc > 3 ? argv[3] : "";
  std::map<Verdict, int> all;
  int wrong = 0;
  for (const testing::ListedModel& model : testing::listed_models()) {
    if (!model.first_of_file || !std::strstr(model.name.c_str(), wanted)) continue;
    const Program program = testing::trace_model(model, model.tiny).program;
    const Cluster cluster = testing::one_device();
    const Plan plan = single_device_plan(program, cluster);
    const DeviceProgram device = generate(program, plan.program, ranks_of(plan, cluster), 0);
    const std::string& text = device.files.front().text;
    std::vector<std::vector<double>> expected;
    for (const Run& run : runs) expected.push_back(executed(program, device, text, run));
    std::vector<test::SourceEdit> edits = test::edits_of(text);
    std::shuffle(edits.begin(), edits.end(), std::mt19937_64(seed));
    edits.resize(std::min(edits.size(), most));
    std::map<Verdict, int> found;
    int wrong_here = 0;
    for (const test::SourceEdit& edit : edits) {
      RankSource source = rank_source(device);
      source.text = test::edited(text, edit);
      const SourceCheck check = check_source(program, plan.program, source, source_options());
      ++found[check.verdict], ++all[check.verdict];
      if (check.verdict != Verdict::proved) continue;
      for (size_t i = 0; i < std::size(runs); ++i)
        if (!alike(executed(program, device, source.text, runs[i]), expected[i])) {
          fmt::print("PASSED, BUT DOES SOMETHING ELSE: {}: {}\n", model.name, test::description(text, edit));
          ++wrong_here;
          break;
        }
    }
    wrong += wrong_here;
    fmt::print("{:<24} {:>3} mutants, {:>3} refuted, {:>3} proved, {:>2} unknown, {} wrongly accepted\n", model.name,
               edits.size(), found[Verdict::refuted], found[Verdict::proved], found[Verdict::unknown], wrong_here);
    std::fflush(stdout);
  }
  fmt::print("{} refuted, {} proved, {} unknown, {} wrongly accepted\n", all[Verdict::refuted], all[Verdict::proved],
             all[Verdict::unknown], wrong);
  return wrong > 0;
}
