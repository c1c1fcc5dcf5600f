#include "runtime/processes/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <thread>

#include "dsl/base/counted.h"
#include "dsl/base/error.h"
#include "runtime/rank/rank_threads.h"

namespace hetsynth {
namespace {

/// `what` has these devices: "the plan runs on".
[[noreturn]] void refuse(const Cluster& devices, const std::string& what, int hosts, int processes,
                         const std::string& fitting) {
  throw UserError({{devices.file, 0, 0},
                   "processes",
                   fmt::format("{} {} of {}, and the launcher has started {} processes", what,
                               counted(int64_t(devices.devices.size()), "device"), counted(hosts, "host"), processes),
                   fitting + " processes",
                   fmt::format("{}", processes),
                   "give mpirun this number as -np; `hetsynth plan` shows the devices a plan uses"},
                  ExitCode::failure);
}

}  // namespace

ProcessOfRank place_ranks(const Cluster& ranks, int processes) {
  const auto count = int(ranks.devices.size());
  ProcessOfRank out;
  if (processes == count) {
    for (int rank = 0; rank < count; ++rank) out.push_back(rank);
    return out;
  }
  std::vector<int> hosts;
  for (const Device& device : ranks.devices) {
    const auto found = std::ranges::find(hosts, device.host);
    out.push_back(int(found - hosts.begin()));
    if (found == hosts.end()) hosts.push_back(device.host);
  }
  if (processes == int(hosts.size())) return out;
  std::string fitting = fmt::format("{} (one for each device)", count);
  if (int(hosts.size()) != count) fitting = fmt::format("{} (one for each host) or ", hosts.size()) + fitting;
  refuse(ranks, "the plan runs on", int(hosts.size()), processes, fitting);
}

void check_processes(const Cluster& devices, int processes) {
  const auto count = int(devices.devices.size());
  if (processes <= count) return;
  std::set<int> hosts;
  for (const Device& device : devices.devices) hosts.insert(device.host);
  refuse(devices, "there are", int(hosts.size()), processes, fmt::format("at most {} (one for each device)", count));
}

std::vector<int> threads_of_ranks(const Cluster& ranks, const Job& job, const ProcessOfRank& process_of) {
  // A launcher may have bound the process to fewer cores than the machine has; then those are its own.
  int here = 0, on_machine = 0;
  for (const int process : process_of) {
    here += process == job.process();
    on_machine += job.host(process) == job.host(job.process());
  }
  const int cores = usable_cores();
  const bool bound = cores < int(std::max(1u, std::thread::hardware_concurrency()));
  // Several hosts of the description may be one machine.
  const int most = std::max(1, cores / std::max(1, bound ? here : on_machine));
  std::vector<int> out;
  for (const Device& device : ranks.devices)
    out.push_back(device.cores > 0 ? device.cores : std::min(most, cores_of(device, cores)));
  return out;
}

}  // namespace hetsynth
