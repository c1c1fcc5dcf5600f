// How long planning takes, and what it finds: deep and wide programs on one mesh axis, and on two. One line per case:
// seconds of processor time for one search at fixed shares and for the whole planning, and the gap that is left.
#include <fmt/format.h>
#include <time.h>

#include "dsl/ir/differentiate.h"
#include "examples/gpt.cpp"
#include "hetsynth/build_paths.h"
#include "synth/baselines.h"
#include "synth/meshes.h"
#include "synth/search.h"

namespace {

using namespace hetsynth;

double processor_seconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

double seconds_of(auto&& work) {
  double start = processor_seconds();
  work();
  return processor_seconds() - start;
}

Program trace_gpt(int layers, int width, int batch, int length) {
  Trace trace("examples/gpt.cpp", {{"layers", std::to_string(layers)},
                                   {"width", std::to_string(width)},
                                   {"heads", std::to_string(width / 64)},
                                   {"batch", std::to_string(batch)},
                                   {"seq", std::to_string(length)}});
  run_builder(trace, model);
  return differentiate(trace);
}

/// Parallel branches of two matrix products each, summed.
Program trace_branches(int branches) {
  Trace trace("branches.cpp");
  run_builder(trace, [=] {
    auto [samples, labels] = synthetic_batch(256, 256, 16);
    Tensor sum;
    for (int i = 0; i < branches; ++i) {
      std::string name = "branch" + std::to_string(i);
      Tensor hidden = relu(matmul(samples, parameter(name + ".up", {256, 64 + 64 * (i % 3)}, normal(0.05))));
      Tensor out = matmul(hidden, parameter(name + ".down", {64 + 64 * (i % 3), 16}, normal(0.05)));
      sum = i == 0 ? out : sum + out;
    }
    minimize(cross_entropy(sum, labels), SGD{});
  });
  return differentiate(trace);
}

std::string gap_text(double cost, double bound) {
  // Picoseconds of rounding.
  return cost <= bound * (1 + 1e-8) ? "proven" : fmt::format("{:.2g} %", 100 * (1 - bound / cost));
}

void report(const std::string& name, const Program& program, const Cluster& cluster, const SynthesisOptions& options) {
  bool two_axes = options.most_axes > 1;
  synth::SearchResult found;
  double search_seconds = seconds_of([&] {
    auto analysis = std::make_shared<const synth::Analysis>(program, two_axes ? 2 : 1);
    Mesh mesh = two_axes ? synth::two_axis_meshes(cluster).at(0) : synth::flat_mesh(cluster);
    synth::Problem problem(analysis, cluster, mesh);
    synth::Shares shares = synth::common_shares(problem.classes, synth::fractions_of(problem, RatioRule::proportional));
    synth::Conversions conversions(*problem.analysis, problem.cost, shares);
    found = synth::search(problem, conversions, shares, {}, {}).search;
  });
  Plan plan;
  double plan_seconds = seconds_of([&] { plan = synthesize(program, cluster, options); });
  std::fflush(stdout);
  fmt::print("{:<44} {:>6} {:>9.3f} {:>8} {:>9.3f} {:>8} {:>11.4g}\n", name, program.nodes.size(), search_seconds,
             gap_text(double(found.cost), double(found.lower_bound)), plan_seconds,
             gap_text(plan.prediction.step_seconds, plan.prediction.lower_bound_seconds),
             plan.prediction.step_seconds * 1e3);
}

}  // namespace

int main(int argc, char** argv) {
  std::string clusters = argc > 1 ? argv[1] : HETSYNTH_SOURCE_DIR "/examples/clusters";
  Cluster two_types = load_cluster(clusters + "/v100-p100.toml"), five = load_cluster(clusters + "/mixed-five.toml"),
          cores = load_cluster(clusters + "/unequal.toml");
  fmt::print("{:<44} {:>6} {:>9} {:>8} {:>9} {:>8} {:>11}\n", "", "nodes", "search, s", "gap", "plan, s", "gap",
             "step, ms");
  for (int layers : {6, 12, 24, 48, 96})
    report(fmt::format("GPT-{}, 64 GPUs of 2 kinds", layers), trace_gpt(layers, 384, 64, 128), two_types, {});
  report("GPT-6, batch 8, 2 unequal cores", trace_gpt(6, 384, 8, 128), cores, {});
  report("GPT-12, width 768, 5 devices of 3 kinds", trace_gpt(12, 768, 32, 128), five, {});
  for (int branches : {2, 8, 32, 64})
    report(fmt::format("{} branches, 5 devices of 3 kinds", branches), trace_branches(branches), five, {});
  SynthesisOptions two_axes;
  two_axes.most_axes = 2;
  for (int layers : {2, 6, 12})
    report(fmt::format("GPT-{}, two axes, 64 GPUs of 2 kinds", layers), trace_gpt(layers, 384, 64, 128), two_types,
           two_axes);
  return 0;
}
