// Starts a run on the hosts of a cluster, and starts it again: without hosts that were lost, with those that are back,
// and with those that join.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cli/crew.h"

namespace hetsynth::cli {

struct ElasticOptions {
  CompilationInput compilation;  ///< `without`: hosts and devices that are not used before they join
  std::string hosts_file, checkpoint;
  int64_t steps = 600, checkpoint_every = 50;
  int restarts = 10;
  double ask_every = 5;  ///< seconds between two questions whether a lost host is back
  bool resume = false;
  bool json = false;  ///< each start that ends by itself tells of it in JSON, on standard output alone
  Launcher launcher;
  std::vector<std::string> more;  ///< words for `run`
};

/// Returns the exit code of the last start of the run. Throws UserError for what no other start mends.
ExitCode supervise(const ElasticOptions& options);

}  // namespace hetsynth::cli
