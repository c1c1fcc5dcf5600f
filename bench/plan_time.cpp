// How long planning takes, and what it finds: the GPT example on 64 devices, and the search alone.
#include <fmt/format.h>

#include <chrono>

#include "dsl/ir/differentiate.h"
#include "examples/gpt.cpp"
#include "hetsynth/build_paths.h"
#include "synth/baselines.h"
#include "synth/search.h"

namespace {

using namespace hetsynth;

double seconds_of(auto&& work) {
  auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
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

void report(const std::string& name, const Program& program, const Cluster& cluster) {
  synth::Problem problem(program, cluster);
  synth::Shares shares = synth::common_shares(problem.classes, synth::fractions_of(problem, RatioRule::proportional));
  synth::Solution solution;
  double search_seconds = seconds_of([&] {
    synth::Conversions conversions(*problem.analysis, problem.cost, shares);
    solution = synth::search(problem, conversions, shares, {}, {});
  });
  Plan plan;
  double plan_seconds = seconds_of([&] { plan = synthesize(program, cluster); });
  const synth::SearchResult& s = solution.search;
  std::fflush(stdout);
  fmt::print("{}: {} nodes, {} variables, {} values left, {} expansions, largest table {:.3g}, {} buckets reused\n",
             name, program.nodes.size(), s.variables, s.values_left, s.expansions, s.largest_table, s.buckets_reused);
  fmt::print("  one search {:.3f} s, whole planning {:.3f} s\n", search_seconds, plan_seconds);
  fmt::print("  predicted {:.4g} ms, bound {:.4g} ms, proven {}\n", plan.prediction.step_seconds * 1e3,
             plan.prediction.lower_bound_seconds * 1e3, plan.prediction.optimal);
  for (const BaselinePrediction& b : plan.prediction.baselines)
    fmt::print("  {}: {}\n", b.name, b.feasible ? fmt::format("{:.4g} ms", b.step_seconds * 1e3) : b.note);
}

}  // namespace

int main(int argc, char** argv) {
  std::string clusters = argc > 1 ? argv[1] : HETSYNTH_SOURCE_DIR "/examples/clusters";
  report("GPT, 6 layers of 384, batch 64 x 128, 64 GPUs", trace_gpt(6, 384, 64, 128),
         load_cluster(clusters + "/v100-p100.toml"));
  report("GPT, 6 layers of 384, batch 8 x 128, 2 unequal cores", trace_gpt(6, 384, 8, 128),
         load_cluster(clusters + "/unequal.toml"));
  report("GPT, 12 layers of 768, batch 32 x 128, 5 devices", trace_gpt(12, 768, 32, 128),
         load_cluster(clusters + "/mixed-five.toml"));
  return 0;
}
