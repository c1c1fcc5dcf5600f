#include "dsl/frontend/crash_guard.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace hetsynth {
namespace {

struct FatalSignal {
  int number;
  const char* what;
  const char* hint;
};
constexpr std::array<FatalSignal, 5> fatal_signals = {{
    {SIGFPE, "it divided an integer by zero", "check the options that it divides by"},
    {SIGSEGV, "it used memory that is not its own", "endless recursion and indices out of range do this"},
    {SIGBUS, "it used memory that is not its own", "endless recursion and indices out of range do this"},
    {SIGILL, "it reached code that must not be reached", "a function that should return a value may lack its return"},
    {SIGABRT, "it aborted", "an assertion of its own may have failed"},
}};

// What the handler of this thread may speak of; null outside of a guard.
thread_local const std::string* guarded_file = nullptr;
thread_local const Trace* guarded_trace = nullptr;

std::mutex mutex;  // guards the two below
int guards = 0;    // alive in all threads: handlers are process-wide
std::array<struct sigaction, fatal_signals.size()> previous_actions;

// Only what is allowed in a signal handler from here to `handle`.
void put(const char* text) { (void)!::write(STDERR_FILENO, text, std::strlen(text)); }
void put(const std::string& text) { (void)!::write(STDERR_FILENO, text.data(), text.size()); }
void put(int number) {
  char digits[16];
  char* at = digits + sizeof digits - 1;
  *at = '\0';
  do *--at = char('0' + number % 10);
  while ((number /= 10) > 0);
  put(at);
}

void put_last_tensor() {
  if (!guarded_trace || guarded_trace->program.nodes.empty()) return;
  const Node& node = guarded_trace->program.nodes.back();
  put("\n  found:    the last tensor it made");
  if (!node.name.empty()) {
    put(" is ");
    put(node.name);
  }
  put(", at ");
  put(node.where.file);
  put(":");
  put(node.where.line);
}

/// Gives the signal back to whoever had it before; the faulting instruction runs again and reaches them.
void restore(size_t index) { ::sigaction(fatal_signals[index].number, &previous_actions[index], nullptr); }

void handle(int number) {
  for (size_t i = 0; i < fatal_signals.size(); ++i) {
    if (fatal_signals[i].number != number) continue;
    if (!guarded_file) return restore(i);
    put(*guarded_file);
    put(": error: the model crashed while it was built: ");
    put(fatal_signals[i].what);
    put_last_tensor();
    put("\n  to mend:  ");
    put(fatal_signals[i].hint);
    put("; HETSYNTH_JIT_DEBUG=1 lets gdb show the line\n");
  }
  ::_exit(int(ExitCode::invalid_input));
}

/// exit() in a model would end hetsynth as if all were done.
void say_exit() {
  if (guarded_file) put(*guarded_file);
  put(guarded_file ? ": error: the model ended the program while it was built: it called exit"
                   : "hetsynth: error: the model ended the program: a thread of its own called exit");
  put_last_tensor();
  put("\n  to mend:  return from model(), or throw an exception that says what is wrong\n");
}

/// Refuses a call of exit in a library that the model uses; calls in the model itself are exit_of_model.
void refuse_exit() {
  if (!guarded_file) return;
  say_exit();
  ::_exit(int(ExitCode::invalid_input));
}

void install() {
  static const bool watched = std::atexit(refuse_exit) == 0 && std::at_quick_exit(refuse_exit) == 0;
  (void)watched;
  struct sigaction action = {};
  action.sa_handler = handle;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < fatal_signals.size(); ++i) ::sigaction(fatal_signals[i].number, &action, &previous_actions[i]);
}

#if defined(__SANITIZE_ADDRESS__)
constexpr bool sanitized = true;
#elif defined(__has_feature)
constexpr bool sanitized = __has_feature(address_sanitizer);
#else
constexpr bool sanitized = false;
#endif

}  // namespace

void exit_of_model(int) {
  say_exit();
  ::_exit(int(ExitCode::invalid_input));
}

CrashGuard::CrashGuard(const std::string& model_file, const Trace* trace) {
  if (sanitized) return;
  stack_.resize(64 * 1024);
  stack_t stack = {};
  stack.ss_sp = stack_.data();
  stack.ss_size = stack_.size();
  ::sigaltstack(&stack, &previous_stack_);
  guarded_file = &model_file;
  guarded_trace = trace;
  std::lock_guard lock(mutex);
  if (guards++ == 0) install();
}

CrashGuard::~CrashGuard() {
  if (sanitized) return;
  {
    std::lock_guard lock(mutex);
    if (--guards == 0)
      for (size_t i = 0; i < fatal_signals.size(); ++i) restore(i);
  }
  guarded_file = nullptr;
  guarded_trace = nullptr;
  ::sigaltstack(&previous_stack_, nullptr);
}

}  // namespace hetsynth
