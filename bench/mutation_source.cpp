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

#include "runtime/launch.h"
#include "runtime/training/generated_check.h"
#include "synth/planner/synthesize.h"
#include "tests/support/damage/one_step.h"
#include "tests/support/damage/source_edits.h"
#include "tests/support/zoo/walk.h"

namespace {

using namespace hetsynth;

const std::vector<test::OneStep> steps = {{3, 0.5, 4}, {2000, 3, 4}};
/// Sums of other orders differ by rounding. Far more than what mistakes change is not expected of them.
constexpr double tolerance = 1e-3;

bool alike(const std::vector<float>& a, const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (!(std::abs(a[i] - b[i]) <= tolerance * std::max(std::abs(a[i]), std::abs(b[i])) + 1e-6)) return a[i] == b[i];
  }
  return true;
}

int usage(const std::string& wanted) {
  fmt::print(stderr, "wanted: {}\nbench_mutation_source [mutants per model] [seed] [part of a model's name]\n", wanted);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  const size_t most = argc > 1 ? size_t(std::atoi(argv[1])) : 40;
  const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const char* wanted = argc > 3 ? argv[3] : "";
  if (most == 0) return usage(fmt::format("a number of mutants, not {}", argv[1]));
  std::map<Verdict, int> all;
  int wrong = 0, models = 0;
  for (const testing::ListedModel& model : testing::listed_models()) {
    if (!model.first_of_file || !std::strstr(model.name.c_str(), wanted)) continue;
    ++models;
    const Program program = testing::trace_model(model, model.tiny).program;
    const Cluster cluster = testing::one_device();
    const Plan plan = single_device_plan(program, cluster);
    const DeviceProgram device = generate(program, plan.program, ranks_of(plan, cluster), 0);
    const std::string& text = device.files.front().text;
    const std::vector<std::vector<float>> expected = test::run_one_step(program, device, text, steps);
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
      const std::vector<std::vector<float>> found_now = test::run_one_step(program, device, source.text, steps);
      if (std::equal(found_now.begin(), found_now.end(), expected.begin(), alike)) continue;
      fmt::print("PASSED, BUT DOES SOMETHING ELSE: {}: {}\n", model.name, test::description(text, edit));
      ++wrong_here;
    }
    wrong += wrong_here;
    fmt::print("{:<24} {:>3} mutants, {:>3} refuted, {:>3} proved, {:>2} unknown, {} wrongly accepted\n", model.name,
               edits.size(), found[Verdict::refuted], found[Verdict::proved], found[Verdict::unknown], wrong_here);
    std::fflush(stdout);
  }
  if (models == 0) return usage(fmt::format("part of the name of a model of docs/models.md, not {}", wanted));
  fmt::print("{} refuted, {} proved, {} unknown, {} wrongly accepted\n", all[Verdict::refuted], all[Verdict::proved],
             all[Verdict::unknown], wrong);
  return wrong > 0;
}
