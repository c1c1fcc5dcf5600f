// A run of several processes: they exchange words, hear each other's failures, and notice when one falls silent.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/processes/process_group.h"

namespace hetsynth {

struct JobOptions {
  /// Processes tell each other that they live; who is not heard of for so long counts as dead.
  std::chrono::milliseconds patience{6000};
};

/// What ended the run elsewhere.
struct ProcessFailure {
  int process = -1;
  std::string message;
};

/// Messages of a job have tags from 0; those of others start here.
constexpr int first_free_tag = 16;

class Job {
 public:
  /// All processes construct theirs. `group` outlives it. Throws RunFailed when another failed or does not come.
  explicit Job(ProcessGroup& group, const JobOptions& options = {});
  /// If all went well, waits until all processes have come here.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  ProcessGroup& group();
  int process() const;
  int count() const;
  bool leads() const { return process() == 0; }
  /// The machine a process runs on.
  const std::string& host(int process) const;
  /// "process 2 on node7".
  std::string describe(int process) const;

  /// Every process gives some bytes and gets those of all, by process. All call it alike and from one thread. Throws
  /// RunFailed when another process failed.
  std::vector<std::string> exchange(const std::string& own);

  /// Tells the others that this process cannot go on; they leave what they are in. Only the first call counts.
  void announce(const std::string& message);
  /// What was heard of another process.
  std::optional<ProcessFailure> failure() const;
  /// Calls `told` (from a thread of its own) as soon as another process fails, also if one has failed before. An empty
  /// function ends that.
  void on_failure(std::function<void(const ProcessFailure&)> told);
  /// After a failure: waits (a few seconds at most, and hardly if the launcher is ending the run) until the other
  /// processes know of it, so that this process can have the last word. Whether one with a lower number failed of the
  /// same cause by itself.
  bool settle();

 private:
  /// Another's failure ends it after this time only.
  std::vector<std::string> exchange(const std::string& own, std::chrono::milliseconds after_failure);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A process that a launcher tells to stop finishes its step. If it waits for one that died, it waits in vain, and the
/// launcher gives it a second or so: whether a signal came and a part of that time has passed since.
class SignalPatience {
 public:
  bool is_over();

 private:
  std::optional<std::chrono::steady_clock::time_point> since_;
};

/// Asks messages until all are done: true; or until `stop`: false. Gives up the core between.
bool wait_for(const std::vector<std::unique_ptr<Message>>& messages, const std::function<bool()>& stop);

}  // namespace hetsynth
