// Every model of examples/ at its tiny size, on one device and on three uneven ones: is the generated source of each
// rank followed to its end, and in how much processor time?
//   bench_source_check [--cuda] [--keep=DIR] [--set=OPTION=VALUE...] [NAME...]
// Names as in the table of models, or part of one; none: all, and variants (bf16, micro-batches, checkpoints) of the
// GPT. `--cuda`: the same devices as cuda devices. `--keep`: writes the sources that were not followed to a folder.
// `--set`: another value of an option than the tiny one's.
#include <fmt/format.h>

#include <cstdio>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/generated_check.h"
#include "runtime/launch.h"
#include "synth/synthesize.h"
#include "tests/support/zoo/walk.h"

namespace {

using namespace hetsynth;
using namespace hetsynth::testing;

bool on_cuda = false;
std::string keep;
Settings chosen;

Cluster of_cuda(Cluster cluster) {
  for (Device& device : cluster.devices) {
    device.kind = DeviceKind::cuda;
    device.architecture = "sm_80";
  }
  return cluster;
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
        std::ofstream(fmt::format("{}/{} {} of {} {}", keep, name, rank, cluster.devices.size(), file.name))
            << file.text;
    fmt::print("{:<24} {} of {}  {:<8} {:>7.3f} s  {:>5} statements  {:>4} collectives  generated in {:.3f} s{}\n",
               name, rank, cluster.devices.size(), hetsynth::name(check.verdict), seconds, check.statements,
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
  for (Cluster cluster : {one_device(), three_uneven_devices()}) {
    if (on_cuda) cluster = of_cuda(cluster);
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
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--cuda")
      on_cuda = true;
    else if (std::string(argv[i]).rfind("--keep=", 0) == 0)
      keep = argv[i] + 7;
    else if (const std::string set = argv[i]; set.rfind("--set=", 0) == 0 && set.find('=', 6) != std::string::npos)
      chosen[set.substr(6, set.find('=', 6) - 6)] = set.substr(set.find('=', 6) + 1);
    else
      names.push_back(argv[i]);
  }
  auto wanted = [&](const std::string& name) {
    bool out = names.empty();
    for (const std::string& part : names) out = out || name.find(part) != std::string::npos;
    return out;
  };
  const std::pair<const char*, Settings> variants[] = {{"bf16", {{"precision", "bf16"}}},
                                                       {"micro-batches", {{"micro_batches", "2"}}},
                                                       {"checkpoints", {{"checkpoint", "1"}}}};
  int bad = 0;
  for (const ListedModel& model : listed_models()) {
    if (!model.first_of_file) continue;
    if (wanted(model.name)) bad += report(model.name, model, model.tiny);
    if (model.file != "gpt.cpp") continue;
    for (const auto& [what, changes] : variants) {
      Settings settings = model.tiny;
      for (const auto& [key, value] : changes) settings[key] = value;
      std::string name = model.name + " " + what;
      if (wanted(name)) bad += report(name, model, settings);
    }
  }
  fmt::print("{} ranks not followed\n", bad);
  return bad > 0;
}
