// Training in one process, and in several that are threads here.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "runtime/launch.h"
#include "runtime/processes/job.h"
#include "runtime/training/train.h"
#include "tests/support/process_double.h"

namespace hetsynth::testing {

/// A text of 3,000 bytes, in a file that lives as long as the test program.
std::string text_file();

/// Runs `body(job)` in as many processes at the same time; gives what each threw, "" for nothing.
std::vector<std::string> in_processes(testing_support::DoubleProcesses& network, int count, const JobOptions& options,
                                      const std::function<void(Job&)>& body);

/// What came of a run: losses by step, and the trained parameters.
struct Outcome {
  std::vector<double> losses;
  std::vector<HostTensor> parameters;
};
/// By the data's seed, with a thread by rank. `job`: this process is one of so many.
Outcome trained(const Program& program, const SpmdProgram& plan, const Cluster& cluster, const DataOptions& data,
                const TrainOptions& training, Job* job = nullptr, int processes = 1);
/// To the bit.
void expect_equal(const Outcome& a, const Outcome& b);

}  // namespace hetsynth::testing
