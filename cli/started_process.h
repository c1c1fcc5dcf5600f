// Programs that a command starts and looks after: mpirun, and what asks whether a host is there.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace hetsynth::cli {

/// A program that was started. It has a process group of its own, so that what is typed on the terminal (Ctrl-C)
/// reaches it only as what `send` hands on, and it has nothing to read. It is asked to end (SIGTERM) where this process
/// is killed, or the thread that started it ends.
class StartedProcess {
 public:
  /// Throws UserError (ExitCode::failure), with `mend`, if there is no such program.
  StartedProcess(const std::vector<std::string>& words, const std::string& mend);
  /// One that still runs is asked to end, and is killed with its group if it does not within five seconds.
  ~StartedProcess();
  StartedProcess(const StartedProcess&) = delete;
  StartedProcess& operator=(const StartedProcess&) = delete;

  /// The exit code, or 128 and the number of the signal that ended it; nothing while it runs.
  std::optional<int> code();
  void send(int signal) const;

 private:
  pid_t pid_ = -1;
  std::optional<int> code_;
};

/// Runs a program to its end. Returns its exit code, or 124 where it was killed because it took longer than `limit`, or
/// because `stop` said so.
int run_to_the_end(const std::vector<std::string>& words, const std::string& mend, std::chrono::seconds limit,
                   const std::function<bool()>& stop);

}  // namespace hetsynth::cli
