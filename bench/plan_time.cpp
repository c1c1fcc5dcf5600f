// How long planning takes, and what it finds: deep and wide programs on one mesh axis, and on two.
//   bench_plan_time [--only=TEXT] [FOLDER_OF_CLUSTERS]
// One line per case whose name holds the text: seconds of processor time for one search at fixed shares and for the
// whole planning, the gap that is left, and the most memory that the process has taken so far.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <stdexcept>

#include "bench/processor_time.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/build_paths.h"
#include "hetsynth/hetsynth.h"
#include "synth/baselines/baselines.h"
#include "synth/mesh/meshes.h"
#include "synth/network/search.h"
#include "synth/planner/synthesize.h"

namespace gpt_example {
#include "examples/gpt.cpp"
}
namespace bert_example {
#include "examples/bert.cpp"
}
namespace moe_example {
#include "examples/bert_moe.cpp"
}

namespace {

using namespace hetsynth;

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
  run_builder(trace, gpt_example::model);
  return differentiate(trace);
}

/// At the published size.
Program trace_published(const std::string& file, void (*model)()) {
  Trace trace(file);
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

/// The same devices with so much memory each.
Cluster with_memory(Cluster cluster, int64_t memory_bytes) {
  for (Device& device : cluster.devices) device.memory_bytes = memory_bytes;
  return cluster;
}

/// 512 GPUs of three kinds, eight to a host, with so much memory each.
Cluster many_gpus(const Cluster& model, int64_t memory_bytes) {
  Cluster cluster = model;
  cluster.name = "512 GPUs of 3 kinds";
  const Device fast = model.devices.front(), slow = model.devices.back();
  const Host fast_host = model.hosts[size_t(fast.host)], slow_host = model.hosts[size_t(slow.host)];
  cluster.hosts.clear();
  cluster.devices.clear();
  for (int host = 0; host < 64; ++host) {
    cluster.hosts.push_back(host < 40 ? fast_host : slow_host);
    cluster.hosts.back().name += std::to_string(host);
    for (int i = 0; i < 8; ++i) {
      Device device = host < 40 ? fast : slow;
      device.name = "gpu" + std::to_string(8 * host + i);
      device.memory_bytes = memory_bytes;
      device.host = host;
      if (host < 16) {  // the third kind: twice as fast
        device.declared.matmul_flops_per_second = 2 * device.matmul_flops_per_second();
        device.model += ", twice as fast";
      }
      cluster.devices.push_back(std::move(device));
    }
  }
  return cluster;
}

class Bench {
 public:
  explicit Bench(std::string only) : only_(std::move(only)) {
    fmt::print("{:<44} {:>6} {:>9} {:>8} {:>9} {:>8} {:>11} {:>6}\n", "", "nodes", "search, s", "gap", "plan, s", "gap",
               "step, ms", "GiB");
  }

  /// `trace`: makes the program.
  void report(const std::string& name, auto trace, const Cluster& cluster, int axes = 1) {
    if (name.find(only_) == std::string::npos) return;
    ++reported_;
    const Program program = trace();
    synth::SearchResult found;
    const double search_seconds = seconds_of([&] {
      auto analysis = std::make_shared<const synth::Analysis>(program, axes);
      Mesh mesh = axes > 1 ? synth::two_axis_meshes(cluster).at(0) : synth::flat_mesh(cluster);
      synth::Problem problem(analysis, cluster, mesh);
      synth::Shares shares =
          synth::common_shares(problem.classes, synth::fractions_of(problem, RatioRule::proportional));
      synth::Conversions conversions(*problem.analysis, problem.cost, shares);
      found = synth::search(problem, conversions, shares, {}, {}).search;
    });
    Plan plan;
    SynthesisOptions options;
    options.most_axes = axes;
    const double plan_seconds = seconds_of([&] { plan = synthesize(program, cluster, options); });
    fmt::print("{:<44} {:>6} {:>9.3f} {:>8} {:>9.3f} {:>8} {:>11.4g} {:>6.2f}\n", name, program.nodes.size(),
               search_seconds, gap_text(double(found.cost), double(found.lower_bound)), plan_seconds,
               gap_text(plan.prediction.objective_seconds, plan.prediction.lower_bound_seconds),
               plan.prediction.objective_seconds * 1e3, resident_gibibytes());
    std::fflush(stdout);
  }

  /// Cases so far.
  int reported() const { return reported_; }

 private:
  std::string only_;
  int reported_ = 0;
};

/// The cases whose name holds the text, on the clusters of the folder.
void report_cases(const std::string& clusters, const std::string& only) {
  const Cluster two_types = load_cluster(clusters + "/v100-p100.toml"),
                five = load_cluster(clusters + "/mixed-five.toml"), cores = load_cluster(clusters + "/unequal.toml"),
                many = many_gpus(two_types, int64_t(32) << 30), many_small = many_gpus(two_types, int64_t(16) << 30);
  Bench bench(only);
  for (int layers : {6, 12, 24, 48, 96})
    bench.report(
        fmt::format("GPT-{}, 64 GPUs of 2 kinds", layers), [=] { return trace_gpt(layers, 384, 64, 128); }, two_types);
  bench.report(
      "GPT-96, 64 GPUs with 32 GiB each", [] { return trace_gpt(96, 384, 64, 128); },
      with_memory(two_types, int64_t(32) << 30));
  bench.report(
      "GPT-6, batch 8, 2 unequal cores", [] { return trace_gpt(6, 384, 8, 128); }, cores);
  bench.report(
      "GPT-12, width 768, 5 devices of 3 kinds", [] { return trace_gpt(12, 768, 32, 128); }, five);
  for (int branches : {2, 8, 32, 64})
    bench.report(
        fmt::format("{} branches, 5 devices of 3 kinds", branches), [=] { return trace_branches(branches); }, five);
  for (int layers : {2, 6, 12})
    bench.report(
        fmt::format("GPT-{}, two axes, 64 GPUs of 2 kinds", layers), [=] { return trace_gpt(layers, 384, 64, 128); },
        two_types, 2);
  bench.report(
      "BERT-12, two axes, 64 GPUs of 2 kinds", [] { return trace_published("examples/bert.cpp", bert_example::model); },
      two_types, 2);
  bench.report(
      "MoE-12, two axes, 64 GPUs of 2 kinds",
      [] { return trace_published("examples/bert_moe.cpp", moe_example::model); }, two_types, 2);
  bench.report(
      "GPT-96, two axes, 512 GPUs of 3 kinds", [] { return trace_gpt(96, 384, 512, 128); }, many, 2);
  // Its fastest plan takes 23 GiB.
  bench.report(
      "GPT-96, two axes, 512 with 16 GiB each", [] { return trace_gpt(96, 384, 512, 128); }, many_small, 2);
  if (bench.reported() == 0) throw std::invalid_argument(fmt::format("no case holds the text '{}'", only));
}

}  // namespace

int main(int argc, char** argv) {
  std::string clusters = HETSYNTH_SOURCE_DIR "/examples/clusters", only;
  CLI::App app("How long planning takes, and what it finds: deep and wide programs");
  app.add_option("FOLDER_OF_CLUSTERS", clusters, "with v100-p100.toml, mixed-five.toml and unequal.toml");
  app.add_option("--only", only, "text that is in the names of the cases");
  CLI11_PARSE(app, argc, argv);
  try {
    report_cases(clusters, only);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
