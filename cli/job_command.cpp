#include "cli/job_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <thread>

#include "cli/command.h"
#include "pipeline/failure.h"
#include "runtime/processes/mpi.h"
#include "runtime/rank/notice.h"

namespace hetsynth::cli {
namespace {

void silence_standard_output() {
  std::fflush(stdout);
  const int nowhere = ::open("/dev/null", O_WRONLY);
  if (nowhere < 0) return;
  ::dup2(nowhere, STDOUT_FILENO);
  ::close(nowhere);
}

/// Ends all processes; the exit code is that of this one, should it be left alive.
ExitCode leave(ProcessGroup& processes, Job& job, const Failure& own) {
  std::cout.flush();
  std::fflush(stdout);
  if (const std::optional<ProcessFailure> other = job.failure()) {
    const std::string first_line = other->message.substr(0, other->message.find('\n'));
    // The first process knows how to go on.
    const size_t advice = own.text.find("\n  to go on:");
    notice("hetsynth: {} stops, as {} failed: {}{}\n", job.describe(job.process()), job.describe(other->process),
           first_line, advice == std::string::npos ? "" : own.text.substr(advice));
    std::fflush(stderr);
    job.settle();
    // The one that failed ends all; if it is gone, nobody else does.
    std::this_thread::sleep_for(std::chrono::seconds(1));
    processes.abandon(int(ExitCode::failure));
    return ExitCode::failure;
  }
  job.announce(own.text);
  const bool told_already = job.settle();
  if (!told_already) notice("hetsynth: {} failed:\n{}\n", job.describe(job.process()), own.text);
  std::fflush(stderr);
  // The one that has told it ends all.
  if (told_already) std::this_thread::sleep_for(std::chrono::seconds(1));
  processes.abandon(int(own.code));
  return own.code;
}

}  // namespace

ExitCode run_in_job(const std::function<ExitCode(Job*)>& work, const JobOptions& options) {
  if (launched_processes() < 2) return work(nullptr);
  const std::unique_ptr<ProcessGroup> processes = join_mpi();
  Job job(*processes, options);
  if (!job.leads()) silence_standard_output();
  try {
    return work(&job);
  } catch (const std::exception& error) {
    return leave(*processes, job, failure_of(error));
  }
}

void add_patience(CLI::App& command, double& seconds) {
  command
      .add_option("--patience", seconds,
                  "Under mpirun: seconds after which a process that nothing is heard of counts as dead")
      ->capture_default_str()
      ->check(at_least(1));
}

JobOptions with_patience(double seconds) {
  return {.patience = std::chrono::milliseconds(int64_t(1000 * std::min(seconds, 1e6)))};
}

}  // namespace hetsynth::cli
