#include "tests/runtime/process_runs.h"

#include <gtest/gtest.h>

#include <exception>
#include <thread>

#include "runtime/processes/placement.h"
#include "tests/runtime/temporary_folder.h"

namespace hetsynth::testing {

std::string text_file() {
  static const TemporaryFolder folder;
  static const std::string path = [] {
    std::string text;
    for (int i = 0; i < 3000; ++i) text += "sphinx of black quartz, judge my vow. "[(i * i / 7) % 38];
    folder.write("text", text);
    return folder.path("text");
  }();
  return path;
}

std::vector<std::string> in_processes(testing_support::DoubleProcesses& network, int count, const JobOptions& options,
                                      const std::function<void(Job&)>& body) {
  std::vector<std::string> thrown(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int p = 0; p < count; ++p) {
    threads.emplace_back([&, p] {
      try {
        Job job(network.process(p), options);
        try {
          body(job);
        } catch (const std::exception& error) {
          thrown[static_cast<size_t>(p)] = error.what();
          if (!job.failure()) job.announce(error.what());
          job.settle();
        }
      } catch (const std::exception& error) {
        thrown[static_cast<size_t>(p)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return thrown;
}

Outcome trained(const Program& program, const SpmdProgram& plan, const Cluster& cluster, const DataOptions& data,
                const TrainOptions& training, Job* job, int processes) {
  LaunchOptions options{.executor = {.seed = data.seed, .threads = {1, false}}};
  if (job) {
    options.executor.job = job;
    options.executor.process_of = place_ranks(cluster, processes);
  }
  const auto executor = launch(program, plan, cluster, options);
  const auto batches = open_data(program, data);
  Outcome out;
  out.losses = train(*executor, *batches, training).losses;
  for (const Node& node : program.nodes)
    if (node.kind == NodeKind::parameter) out.parameters.push_back(executor->read(node.id));
  return out;
}

void expect_equal(const Outcome& a, const Outcome& b) {
  EXPECT_EQ(a.losses, b.losses);
  ASSERT_EQ(a.parameters.size(), b.parameters.size());
  for (size_t i = 0; i < a.parameters.size(); ++i) EXPECT_EQ(a.parameters[i].bytes, b.parameters[i].bytes);
}

}  // namespace hetsynth::testing
