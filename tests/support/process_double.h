// Processes that are threads of one test: messages go through queues, and a process can be silenced.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/processes/process_group.h"

namespace hetsynth::testing_support {

/// What `ProcessGroup::abandon` is among threads.
struct Abandoned : std::runtime_error {
  explicit Abandoned(int exit_code) : std::runtime_error("abandoned"), code(exit_code) {}
  int code;
};

class DoubleProcesses {
 public:
  /// `hosts`: of each process; one name may stand several times.
  explicit DoubleProcesses(std::vector<std::string> hosts);
  ~DoubleProcesses();
  ProcessGroup& process(int number) { return *processes_.at(size_t(number)); }
  /// From now on nothing that this process sends arrives, as if it had died or its cable were cut.
  void silence(int process);
  /// Messages that one process has sent another one so far, under this tag or a higher one.
  int sent(int from, int to, int tag) const;
  /// Messages that were sent and never received.
  int undelivered() const;

 private:
  friend class DoubleProcess;
  using Route = std::tuple<int, int, int>;  // from, to, tag
  struct Pending {
    std::vector<std::byte> bytes;
    bool done = false, truncated = false;
  };
  void match(const Route& route);
  mutable std::mutex mutex_;
  std::map<Route, std::deque<std::vector<std::byte>>> sent_;
  std::map<Route, std::deque<std::weak_ptr<Pending>>> wanted_;
  std::map<Route, int> counted_;  ///< messages sent
  std::vector<bool> silent_;
  std::vector<std::unique_ptr<ProcessGroup>> processes_;
};

}  // namespace hetsynth::testing_support
