#include "cli/started_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "dsl/base/error.h"

namespace hetsynth::cli {
namespace {

/// What is asked to end has so long for it.
constexpr std::chrono::seconds patience{5};

void reap(pid_t pid) {
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

/// What the new process does: only what is safe after the fork of a process with threads.
[[noreturn]] void become(char** arguments, pid_t parent, int tell) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);
  if (const int nothing = ::open("/dev/null", O_RDONLY); nothing > STDIN_FILENO) {
    ::dup2(nothing, STDIN_FILENO);
    ::close(nothing);
  }
  ::execvp(arguments[0], arguments);
  const int error = errno;
  (void)!::write(tell, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

StartedProcess::StartedProcess(const std::vector<std::string>& words, const std::string& mend) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const auto refuse = [&](int error) {
    throw UserError(
        {.message = fmt::format("{} cannot be started: {}", words.front(), std::strerror(error)), .mend = mend},
        ExitCode::failure);
  };
  int pipe[2];  // on which is told why it does not start; it closes when it does
  if (::pipe2(pipe, O_CLOEXEC) != 0) refuse(errno);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) become(arguments.data(), parent, pipe[1]);
  int error = pid_ < 0 ? errno : 0;
  ::close(pipe[1]);
  while (pid_ > 0 && ::read(pipe[0], &error, sizeof error) < 0 && errno == EINTR) {
  }
  ::close(pipe[0]);
  if (error == 0) return;
  if (pid_ > 0) reap(pid_);
  refuse(error);
}

StartedProcess::~StartedProcess() {
  if (code()) return;
  send(SIGTERM);  // mpirun ends its processes then
  for (const auto deadline = std::chrono::steady_clock::now() + patience;
       std::chrono::steady_clock::now() < deadline;) {
    if (code()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ::kill(-pid_, SIGKILL);
  reap(pid_);
}

std::optional<int> StartedProcess::code() {
  if (code_) return code_;
  int status = 0;
  const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
  if (ended == pid_)
    code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  else if (ended < 0 && errno != EINTR)
    code_ = 1;
  return code_;
}

void StartedProcess::send(int signal) const {
  if (!code_) ::kill(pid_, signal);
}

int run_to_the_end(const std::vector<std::string>& words, const std::string& mend, std::chrono::seconds limit,
                   const std::function<bool()>& stop) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  StartedProcess process(words, mend);
  while (!process.code()) {
    if (stop() || std::chrono::steady_clock::now() > deadline) return 124;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return *process.code();
}

}  // namespace hetsynth::cli
