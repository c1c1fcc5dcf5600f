#include "training.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "dsl/ir/interpreter.h"
#include "runtime/launch.h"
#include "runtime/processes/placement.h"
#include "runtime/training/train.h"
#include "tests/support/process_double.h"
#include "tests/support/zoo/walk.h"

namespace hetsynth::testing {
namespace {

/// Texts for the models that read one, in a file that lives as long as the process.
class TextFile {
 public:
  TextFile() : path_(std::filesystem::temp_directory_path() / fmt::format("hetsynth-cuda-{}", ::getpid())) {
    std::ofstream out(path_);
    for (int i = 0; i < 4000; ++i) out << "pack my box with five dozen liquor jugs. "[(i * i / 5) % 41];
  }
  ~TextFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

bool reads_text(const Program& program) {
  return std::ranges::any_of(program.nodes, [](const Node& node) {
    return node.data.kind == DataSource::Kind::text_tokens || node.data.kind == DataSource::Kind::text_targets ||
           node.data.kind == DataSource::Kind::text_next;
  });
}

}  // namespace

std::unique_ptr<BatchSource> data_of(const Program& program) {
  static const TextFile text;
  return open_data(program, {reads_text(program) ? text.path() : "", small_seed});
}

const std::vector<SmallModel>& small_models() {
  static const std::vector<SmallModel> models = {
      {"Mlp", "mlp.cpp", {{"context", "3"}, {"width", "4"}, {"hidden", "10"}, {"batch", "12"}}},
      {"Gpt",
       "gpt.cpp",
       {{"layers", "1"}, {"heads", "2"}, {"width", "8"}, {"seq", "6"}, {"batch", "6"}, {"dropout", "0.1"}}},
      {"BertMoe", "bert_moe.cpp", {{"size", "tiny"}, {"batch", "5"}}},
      {"Vgg", "vgg19.cpp", {{"size", "tiny"}, {"batch", "5"}, {"lr", "0.001"}}, 2e-5, false},
      // A sum in float32 that falls to the other side of a rounding to bf16 moves that element by 2^-8 of itself.
      {"GptBf16",
       "gpt.cpp",
       {{"layers", "1"}, {"heads", "2"}, {"width", "8"}, {"seq", "6"}, {"batch", "6"}, {"precision", "bf16"}},
       1e-3},
      {"GptFp16",
       "gpt.cpp",
       {{"layers", "1"}, {"heads", "2"}, {"width", "8"}, {"seq", "6"}, {"batch", "6"}, {"precision", "fp16"}},
       3e-4},
  };
  return models;
}

void PrintTo(const SmallModel& model, std::ostream* out) { *out << model.name; }

const Program& program_of(const SmallModel& model) {
  static std::map<std::string, TracedModel> traced;
  const auto [entry, fresh] = traced.try_emplace(model.name);
  if (fresh) {
    ListedModel listed;
    // A bundle on another machine has the examples elsewhere.
    const char* const examples = std::getenv("HETSYNTH_EXAMPLES_DIR");
    listed.file = examples ? std::string(examples) + "/" + model.file : model.file;
    entry->second = trace_model(listed, model.settings);
  }
  return entry->second.program;
}

const std::vector<double>& float64_losses(const SmallModel& model) {
  static std::map<std::string, std::vector<double>> known;
  const auto [entry, fresh] = known.try_emplace(model.name);
  if (!fresh) return entry->second;
  const Program& program = program_of(model);
  const auto data = data_of(program);
  Bindings leaves = initial_values(program, small_seed);
  for (int step = 0; step < small_steps; ++step) {
    for (auto& [node, contents] : whole_batch(program, *data, step)) leaves[node] = contents;
    const std::vector<Array> values = interpret(program, leaves, {small_seed, step});
    entry->second.push_back(values[size_t(program.loss)].values[0]);
    for (const Update& update : program.updates) leaves[update.target] = values[size_t(update.value)];
  }
  return entry->second;
}

Cluster devices(const std::vector<double>& speeds, const std::vector<int>& cpus) {
  Cluster cluster = local_cluster(int(speeds.size()));
  cluster.name = "doubles";
  int gpus = 0;
  for (size_t i = 0; i < speeds.size(); ++i) {
    Device& device = cluster.devices[i];
    device.declared = {speeds[i] * 1e9, speeds[i] * 1e9};
    device.measured = {};
    if (std::ranges::find(cpus, int(i)) != cpus.end()) continue;
    device.kind = DeviceKind::cuda;
    device.index = gpus++;
    device.name = fmt::format("gpu{}", device.index);
    device.architecture = "sm_80";
  }
  return cluster;
}

namespace {

testing_support::MachineOptions machine_options(const SmallModel& model, const Cluster& cluster,
                                                testing_support::MachineOptions options) {
  options.gpus = int(std::ranges::count(cluster.devices, DeviceKind::cuda, &Device::kind));
  options.traces_kernels = model.traced;
  return options;
}

/// The ranks of this process, or all; after training they are gone.
std::vector<double> train_here(const Program& program, const Plan& plan, const Cluster& ranks,
                               const testing_support::CudaDoubles& machine, Job* job) {
  const auto data = data_of(program);
  LaunchOptions launched;
  launched.executor.seed = small_seed;
  launched.executor.threads.threads_per_rank = 1;
  launched.optimization = 0;
  launched.cuda = &machine.backend();
  launched.executor.job = job;
  if (job) launched.executor.process_of = place_ranks(ranks, job->count());
  const auto executor = launch(program, plan.program, ranks, launched);
  TrainOptions train_options;
  train_options.steps = small_steps;
  return train(*executor, *data, train_options).losses;
}

}  // namespace

Trained train_on_doubles(const SmallModel& model, const Plan& plan, const Cluster& cluster,
                         testing_support::MachineOptions options, const Program* in_turns) {
  testing_support::CudaDoubles machine(machine_options(model, cluster, options));
  Trained out;
  out.losses = train_here(in_turns ? *in_turns : program_of(model), plan, ranks_of(plan, cluster), machine, nullptr);
  for (int gpu = 0; gpu < machine.options().gpus; ++gpu) out.collectives.push_back(machine.take_collectives(gpu));
  out.left_behind = machine.left_behind();
  return out;
}

TrainedProcesses train_in_processes(const SmallModel& model, const Plan& plan, const Cluster& cluster, int processes,
                                    testing_support::MachineOptions options) {
  testing_support::CudaDoubles machine(machine_options(model, cluster, options));
  testing_support::DoubleProcesses network(std::vector<std::string>(size_t(processes), "doubles"));
  program_of(model);  // traced once, before there are several threads
  TrainedProcesses out;
  out.losses.resize(size_t(processes));
  out.thrown.resize(size_t(processes));
  std::vector<std::thread> threads;
  for (int p = 0; p < processes; ++p)
    threads.emplace_back([&, p] {
      Job job(network.process(p));
      try {
        out.losses[size_t(p)] = train_here(program_of(model), plan, ranks_of(plan, cluster), machine, &job);
      } catch (const std::exception& error) {
        out.thrown[size_t(p)] = error.what();
        if (!job.failure()) job.announce(error.what());
        job.settle();
      }
    });
  for (std::thread& thread : threads) thread.join();
  out.left_behind = machine.left_behind();
  return out;
}

}  // namespace hetsynth::testing
