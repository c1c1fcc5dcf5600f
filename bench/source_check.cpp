// Every model of examples/ at its tiny size, on one device and on three uneven ones: is the generated source of each
// rank followed to its end, and in how much processor time?
//   bench_source_check [--published] [--equal=N] [--cuda] [--keep=DIR] [--set=OPTION=VALUE...] [NAME...]
// Names as in the table of models, or part of one; none: all, and variants (bf16, fp16, micro-batches, checkpoints) of
// the GPT. `--published`: at the published size. `--equal`: on so many devices that are alike instead. `--cuda`: the
// same devices as cuda devices. `--keep`: writes the sources that were not followed to a folder. `--set`: another value
// of an option. The memory is the most that the process has taken so far.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/launch.h"
#include "runtime/training/generated_check.h"
#include "synth/planner/synthesize.h"
#include "tests/support/zoo/walk.h"

namespace {

using namespace hetsynth;
using namespace hetsynth::testing;

bool on_cuda = false, published = false;
int equal_devices = 0;
std::string keep;
Settings chosen;

Cluster of_cuda(Cluster cluster) {
  for (Device& device : cluster.devices) {
    device.kind = DeviceKind::cuda;
    device.architecture = "sm_80";
  }
  return cluster;
}

/// Nothing is run here, so that devices may hold what none of this machine does.
Cluster of_much_memory(Cluster cluster) {
  for (Device& device : cluster.devices) device.memory_bytes = int64_t(1) << 40;
  return cluster;
}

int64_t most_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

std::vector<Cluster> clusters() {
  if (equal_devices > 0) return {local_cluster(equal_devices)};
  return {one_device(), three_uneven_devices()};
}

/// A model's name as a part of a file's: "ViT-B-16".
std::string file_name(std::string name) {
  std::ranges::replace(name, '/', '-');
  return name;
}

/// One line per rank. Returns the number of ranks that were not followed or differ.
int report(const std::string& name, const Program& program, const Plan& plan, const Cluster& cluster) {
  SourceOptions options = source_options();
  int bad = 0;
  for (int rank = 0; rank < int(cluster.devices.size()); ++rank) {
    DeviceProgram device;
    std::clock_t begin = std::clock();
    device = generate(program, plan.program, ranks_of(plan, cluster), rank);
    double generate_seconds = double(std::clock() - begin) / CLOCKS_PER_SEC;
    begin = std::clock();
    SourceCheck check = check_source(program, plan.program, rank_source(device), options);
    double seconds = double(std::clock() - begin) / CLOCKS_PER_SEC;
    bad += check.verdict != Verdict::proved;
    if (check.verdict != Verdict::proved && !keep.empty())
      for (const SourceFile& file : device.files)
        std::ofstream(fmt::format("{}/{} {} of {} {}", keep, file_name(name), rank, cluster.devices.size(), file.name))
            << file.text;
    fmt::print(
        "{:<24} {} of {}  {:<8} {:>7.3f} s  {:>5} MB  {:>5} statements  {:>4} collectives  generated in {:.3f} s{}\n",
        name, rank, cluster.devices.size(), hetsynth::name(check.verdict), seconds, most_megabytes(), check.statements,
        check.collectives, generate_seconds,
        check.verdict == Verdict::proved ? "" : fmt::format("  line {}: {}", check.line, check.summary));
    std::fflush(stdout);
  }
  return bad;
}

int report(const std::string& name, const ListedModel& model, Settings settings) {
  for (const auto& [option, value] : chosen) settings[option] = value;
  TracedModel traced = trace_model(model, settings);
  int bad = 0;
  for (Cluster cluster : clusters()) {
    if (on_cuda) cluster = of_cuda(cluster);
    if (published) cluster = of_much_memory(cluster);
    SynthesisOptions options;
    options.time_limit_seconds = 2;
    Plan plan = cluster.devices.size() == 1 ? single_device_plan(traced.program, cluster)
                                            : synthesize(traced.program, cluster, options);
    bad += report(name, traced.program, plan, cluster);
  }
  return bad;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> names;
  std::vector<std::string> sets;
  CLI::App app("Is the generated source of every model of examples/ followed to its end?");
  app.add_option("NAME", names, "of models, or part of one; none: all");
  app.add_flag("--cuda", on_cuda, "on cuda devices");
  app.add_flag("--published", published, "at the published size");
  app.add_option("--equal", equal_devices, "devices that are alike, instead of one and of three uneven ones");
  app.add_option("--keep", keep, "folder for sources that were not followed");
  app.add_option("--set", sets, "OPTION=VALUE, instead of the tiny one's")
      ->check([](const std::string& set) {
        return set.find('=') == std::string::npos ? "wanted: OPTION=VALUE, found: " + set : "";
      })
      ->allow_extra_args(false);
  CLI11_PARSE(app, argc, argv);
  for (const std::string& set : sets) chosen[set.substr(0, set.find('='))] = set.substr(set.find('=') + 1);
  int checked = 0;
  auto wanted = [&](const std::string& name) {
    bool out = names.empty();
    for (const std::string& part : names) out = out || name.find(part) != std::string::npos;
    checked += out;
    return out;
  };
  const std::pair<const char*, Settings> variants[] = {{"bf16", {{"precision", "bf16"}}},
                                                       {"fp16", {{"precision", "fp16"}}},
                                                       {"micro-batches", {{"micro_batches", "2"}}},
                                                       {"checkpoints", {{"checkpoint", "1"}}}};
  int bad = 0;
  for (const ListedModel& model : listed_models()) {
    if (!model.first_of_file) continue;
    if (wanted(model.name)) bad += report(model.name, model, published ? model.published : model.tiny);
    if (model.file != "gpt.cpp" || published) continue;
    for (const auto& [what, changes] : variants) {
      Settings settings = model.tiny;
      for (const auto& [key, value] : changes) settings[key] = value;
      std::string name = model.name + " " + what;
      if (wanted(name)) bad += report(name, model, settings);
    }
  }
  if (checked == 0) {
    fmt::print(stderr, "no model's name holds what was asked for; docs/models.md lists them\n");
    return 2;
  }
  fmt::print("{} ranks not followed\n", bad);
  return bad > 0;
}
