#include "tests/runtime/failing_calls.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>

namespace hetsynth::testing {
namespace {

thread_local bool counting = false;
thread_local int failing_call = -1, failing_error = 0;
thread_local std::vector<std::string> called;

/// Whether this call is the one to fail; errno says how.
bool fails(std::string call) {
  if (!counting) return false;
  counting = false;  // the list itself may need the system
  const bool now = int(called.size()) == failing_call;
  called.push_back(std::move(call));
  counting = true;
  if (now) errno = failing_error;
  return now;
}

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

mode_t mode_of(int flags, va_list& arguments) { return (flags & O_CREAT) ? mode_t(va_arg(arguments, unsigned)) : 0; }

}  // namespace

FailingCalls::FailingCalls(int failing, int error) {
  called.clear();
  failing_call = failing;
  failing_error = error;
  counting = true;
}
FailingCalls::~FailingCalls() { counting = false; }
const std::vector<std::string>& FailingCalls::calls() const { return called; }

}  // namespace hetsynth::testing

using hetsynth::testing::fails;
using hetsynth::testing::mode_of;
using hetsynth::testing::real;

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  static auto* const next = real<int(const char*, int, mode_t)>("open");
  return fails(std::string("open ") + path) ? -1 : next(path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  static auto* const next = real<int(int, const char*, int, mode_t)>("openat");
  return fails(std::string("openat ") + path) ? -1 : next(folder, path, flags, mode);
}

ssize_t write(int file, const void* bytes, size_t count) {
  static auto* const next = real<ssize_t(int, const void*, size_t)>("write");
  return fails("write " + std::to_string(file)) ? -1 : next(file, bytes, count);
}

ssize_t pwrite(int file, const void* bytes, size_t count, off_t offset) {
  static auto* const next = real<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return fails("pwrite " + std::to_string(file)) ? -1 : next(file, bytes, count, offset);
}

int fsync(int file) {
  static auto* const next = real<int(int)>("fsync");
  return fails("fsync " + std::to_string(file)) ? -1 : next(file);
}

int close(int file) {
  static auto* const next = real<int(int)>("close");
  const bool failed = fails("close " + std::to_string(file));
  const int result = next(file);  // a close that fails has closed all the same
  if (failed) errno = hetsynth::testing::failing_error;
  return failed ? -1 : result;
}

int flock(int file, int operation) noexcept {
  static auto* const next = real<int(int, int)>("flock");
  return fails("flock " + std::to_string(file)) ? -1 : next(file, operation);
}

int stat(const char* path, struct stat* status) noexcept {
  static auto* const next = real<int(const char*, struct stat*)>("stat");
  return fails(std::string("stat ") + path) ? -1 : next(path, status);
}

int fstat(int file, struct stat* status) noexcept {
  static auto* const next = real<int(int, struct stat*)>("fstat");
  return fails("fstat " + std::to_string(file)) ? -1 : next(file, status);
}

int fstatat(int folder, const char* path, struct stat* status, int flags) noexcept {
  static auto* const next = real<int(int, const char*, struct stat*, int)>("fstatat");
  return fails(std::string("fstatat ") + path) ? -1 : next(folder, path, status, flags);
}

int linkat(int from, const char* old_name, int to, const char* new_name, int flags) noexcept {
  static auto* const next = real<int(int, const char*, int, const char*, int)>("linkat");
  return fails(std::string("linkat ") + old_name + " " + new_name) ? -1 : next(from, old_name, to, new_name, flags);
}

int renameat(int from, const char* old_name, int to, const char* new_name) noexcept {
  static auto* const next = real<int(int, const char*, int, const char*)>("renameat");
  return fails(std::string("renameat ") + old_name + " " + new_name) ? -1 : next(from, old_name, to, new_name);
}

int rename(const char* from, const char* to) noexcept {
  static auto* const next = real<int(const char*, const char*)>("rename");
  return fails(std::string("rename ") + from + " " + to) ? -1 : next(from, to);
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  static auto* const next = real<int(int, const char*, int)>("unlinkat");
  return fails(std::string("unlinkat ") + path) ? -1 : next(folder, path, flags);
}

}  // extern "C"
