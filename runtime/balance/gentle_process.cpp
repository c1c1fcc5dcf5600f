#include "runtime/balance/gentle_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <ctime>
#include <exception>
#include <stdexcept>

namespace hetsynth {
namespace {

/// CPU time between two rests of the copy.
constexpr double busy_seconds = 0.002;

// The copy's signal handlers read and write these.
double rest_for_a_second = 0, seconds_paid_for = 0;
volatile sig_atomic_t hurries = 0;

/// Rests for the CPU time that was used since the last rest: the kernel's timers come late.
void rest_a_while(int) {
  const int before = errno;
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  const double seconds = double(used.tv_sec) + double(used.tv_nsec) * 1e-9;
  const double resting = (seconds - seconds_paid_for) * rest_for_a_second;
  seconds_paid_for = seconds;
  const timespec rest{time_t(resting), long((resting - std::floor(resting)) * 1e9)};
  if (!hurries) ::nanosleep(&rest, nullptr);  // the signal to hurry ends it
  errno = before;
}

void stop_resting(int) { hurries = 1; }

/// From now on each `busy_seconds` of CPU time are followed by a rest.
void take_a_part_of_a_core(double part) {
  rest_for_a_second = 1 / part - 1;
  struct sigaction action {};
  action.sa_handler = rest_a_while;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGPROF, &action, nullptr);
  action.sa_handler = stop_resting;
  ::sigaction(SIGUSR2, &action, nullptr);
  const itimerval timer{{0, suseconds_t(busy_seconds * 1e6)}, {0, suseconds_t(busy_seconds * 1e6)}};
  ::setitimer(ITIMER_PROF, &timer, nullptr);
  ::setpriority(PRIO_PROCESS, 0, 19);
}

void write_all(int to, const std::string& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t written = ::write(to, bytes.data() + at, bytes.size() - at);
    if (written < 0 && errno != EINTR) return;
    if (written > 0) at += size_t(written);
  }
}

std::string outcome(const std::function<std::string()>& work) {
  try {
    return "+" + work();
  } catch (const std::exception& error) {
    return std::string("!") + error.what();
  }
}

}  // namespace

GentleProcess::GentleProcess(double part, const std::function<std::string()>& work) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) == 0) {
    // The signal to hurry waits until its handler is there.
    sigset_t hurry, before;
    sigemptyset(&hurry);
    sigaddset(&hurry, SIGUSR2);
    ::pthread_sigmask(SIG_BLOCK, &hurry, &before);
    child_ = ::fork();
    if (child_ == 0) {
      // A signal for the whole group, as Ctrl-C, is its parent's, which ends it.
      for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) ::signal(number, SIG_IGN);
      take_a_part_of_a_core(part);
      ::pthread_sigmask(SIG_UNBLOCK, &hurry, nullptr);
      write_all(ends[1], outcome(work));
      ::_exit(0);
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ::close(ends[1]);
    pipe_ = ends[0];
  }
  if (child_ > 0) return;
  bytes_ = outcome(work);
  done_ = true;
}

GentleProcess::~GentleProcess() {
  if (child_ > 0 && !done_) {
    ::kill(child_, SIGKILL);
    while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  if (pipe_ >= 0) ::close(pipe_);
}

void GentleProcess::read_all(bool wait) {
  char buffer[4096];
  while (!done_) {
    pollfd end{pipe_, POLLIN, 0};
    if (::poll(&end, 1, wait ? -1 : 0) <= 0 && !wait) return;
    const ssize_t count = ::read(pipe_, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count > 0) {
      bytes_.append(buffer, size_t(count));
      continue;
    }
    int status = 0;
    while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    done_ = true;
    if (WIFSIGNALED(status)) bytes_ = fmt::format("!the process ended by signal {}", WTERMSIG(status));
    if (bytes_.empty()) bytes_ = "!the process ended without a result";
  }
}

std::string GentleProcess::taken() const {
  if (bytes_[0] == '!') throw std::runtime_error(bytes_.substr(1));
  return bytes_.substr(1);
}

std::optional<std::string> GentleProcess::result() {
  read_all(/*wait=*/false);
  return done_ ? std::optional(taken()) : std::nullopt;
}

std::string GentleProcess::hurried() {
  if (!done_) ::kill(child_, SIGUSR2);
  read_all(/*wait=*/true);
  return taken();
}

}  // namespace hetsynth
