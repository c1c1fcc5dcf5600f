#include "dsl/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>

#include "dsl/base/error.h"
#include "dsl/base/new_file.h"

namespace hetsynth {
namespace {

/// A file descriptor that closes itself.
struct Descriptor {
  int fd = -1;
  explicit Descriptor(int fd) : fd(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

[[noreturn]] void fail(const std::string& path, std::string message, std::string mend, ExitCode code) {
  Diagnostic diagnostic;
  diagnostic.where.file = path;
  diagnostic.message = std::move(message);
  diagnostic.mend = std::move(mend);
  throw UserError(std::move(diagnostic), code);
}

[[noreturn]] void fail_with_errno(const std::string& path, const std::string& message, ExitCode code) {
  fail(path, fmt::format("{}: {}", message, std::strerror(errno)), errno == ENOENT ? "check the path" : "", code);
}

/// A terminal, a pipe or /dev/null has nothing to be replaced: bytes go into it.
void write_stream(const std::string& path, const std::string& what, std::string_view bytes) {
  const std::string message = fmt::format("cannot write the {}", what);
  const OpenForWriting file(path, what);
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t put = ::write(file.descriptor(), bytes.data() + done, bytes.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) fail_with_errno(path, message, ExitCode::failure);
    done += size_t(put);
  }
}

}  // namespace

std::string read_file(const std::string& path, const std::string& what, int64_t limit_bytes) {
  const std::string message = fmt::format("cannot read the {}", what);
  // Opening a pipe or a terminal would wait for a writer: O_NONBLOCK, and only regular files are read.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd < 0) fail_with_errno(path, message, ExitCode::invalid_input);
  struct stat status {};
  if (::fstat(file.fd, &status) != 0) fail_with_errno(path, message, ExitCode::invalid_input);
  if (!S_ISREG(status.st_mode)) fail(path, message + ": it is not a regular file", "", ExitCode::invalid_input);
  std::string bytes;
  char buffer[65536];
  for (;;) {
    const ssize_t got = ::read(file.fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_with_errno(path, message, ExitCode::invalid_input);
    if (got == 0) return bytes;
    bytes.append(buffer, size_t(got));
    if (int64_t(bytes.size()) > limit_bytes)
      fail(path, fmt::format("the {} is longer than {} bytes", what, limit_bytes), "", ExitCode::invalid_input);
  }
}

void check_regular_file(const std::string& path, const std::string& what) {
  const std::string message = fmt::format("cannot read the {}", what);
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) fail_with_errno(path, message, ExitCode::invalid_input);
  if (!S_ISREG(status.st_mode)) fail(path, message + ": it is not a regular file", "", ExitCode::invalid_input);
}

OpenForWriting::OpenForWriting(const std::string& path, const std::string& what) {
  const std::string message = fmt::format("cannot write the {}", what);
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0 && errno == ENXIO)
    fail(path, message + ": nobody reads the pipe", "start what reads it first", ExitCode::failure);
  if (descriptor_ < 0) fail_with_errno(path, message, ExitCode::failure);
  // Once it is open, what is written waits for its reader.
  ::fcntl(descriptor_, F_SETFL, ::fcntl(descriptor_, F_GETFL) & ~O_NONBLOCK);
}

OpenForWriting::~OpenForWriting() { ::close(descriptor_); }

void write_file_atomically(const std::string& path, const std::string& what, std::string_view bytes) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
    return write_stream(path, what, bytes);
  NewFile file(path, what);
  file.write(std::as_bytes(std::span(bytes)));
  file.place();
}

}  // namespace hetsynth
