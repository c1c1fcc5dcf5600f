// Work that nobody waits for, in a process of its own that takes a small part of a core.
#pragma once
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

namespace hetsynth {

/// A copy of this process does some work and hands its result over. It has this process's memory as it is now, except
/// arenas (runtime/rank/arena.h), and one thread.
class GentleProcess {
 public:
  /// `part`: of a core, which the copy takes at most in the long run. Where no process can be started the work is done
  /// here and now.
  GentleProcess(double part, const std::function<std::string()>& work);
  /// Ends it, whatever it is at.
  ~GentleProcess();
  GentleProcess(const GentleProcess&) = delete;
  GentleProcess& operator=(const GentleProcess&) = delete;

  /// What the work gave, once it is done. Throws std::runtime_error if the process threw or died instead.
  std::optional<std::string> result();
  /// The same, waiting for it; the process may take a whole core from now on.
  std::string hurried();

 private:
  void read_all(bool wait);
  std::string taken() const;

  pid_t child_ = -1;
  int pipe_ = -1;
  bool done_ = false;
  std::string bytes_;  ///< a '+' and the result, or a '!' and what went wrong
};

}  // namespace hetsynth
