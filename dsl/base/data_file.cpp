#include "dsl/base/data_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace hetsynth {
namespace {

/// A process may have more files open than it is given at first (1,024 on most systems): as many parts of data stay
/// open as there are.
bool raise_limit_of_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return false;
  limit.rlim_cur = limit.rlim_max;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

/// The descriptor that `open` gives; it is asked again if there were too many files.
template <class Open>
int opened(const Open& open) {
  const int number = open();
  return number < 0 && errno == EMFILE && raise_limit_of_files() ? open() : number;
}

}  // namespace

UserError data_error(const std::string& path, const std::string& message, const std::string& expected,
                     const std::string& found, const std::string& mend) {
  return UserError({{path, 0, 0}, "data", message, expected, found, mend});
}

std::string hex(std::span<const unsigned char> bytes) {
  std::string out;
  for (const unsigned char byte : bytes) out += fmt::format("{}{:02x}", out.empty() ? "" : " ", byte);
  return out.empty() ? "nothing" : out;
}

DataFile::DataFile(std::string path) : path_(std::move(path)) {
  // Without O_NONBLOCK a pipe would be waited for until somebody writes into it.
  number_ = opened([&] { return ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
  struct stat status {};
  std::string problem;
  if (number_ < 0 || ::fstat(number_, &status) != 0) {
    problem = std::string("the file cannot be read: ") + std::strerror(errno);
  } else if (!S_ISREG(status.st_mode)) {
    problem = "this is no regular file";
  }
  if (!problem.empty()) {
    if (number_ >= 0) ::close(number_);  // the destructor of an object that was never made does not run
    throw error(problem);
  }
  bytes_ = static_cast<int64_t>(status.st_size);
}

DataFile::DataFile(std::string path, std::vector<std::byte> unpacked)
    : path_(std::move(path)), bytes_(static_cast<int64_t>(unpacked.size())), unpacked_(std::move(unpacked)) {}

DataFile::DataFile(DataFile&& other) noexcept
    : path_(std::move(other.path_)),
      begin_(other.begin_),
      bytes_(other.bytes_),
      number_(std::exchange(other.number_, -1)),
      unpacked_(std::move(other.unpacked_)) {}

DataFile DataFile::part(std::string path, int64_t begin, int64_t bytes) const {
  HETSYNTH_CHECK(begin >= 0 && bytes >= 0 && begin <= bytes_ - bytes, "the part lies in the file");
  HETSYNTH_CHECK(number_ >= 0, "parts are of files that are open");
  DataFile out;
  out.path_ = std::move(path);
  out.begin_ = begin_ + begin;
  out.bytes_ = bytes;
  out.number_ = opened([&] { return ::fcntl(number_, F_DUPFD_CLOEXEC, 0); });
  if (out.number_ < 0) throw error(std::string("the file cannot be read: ") + std::strerror(errno));
  return out;
}

DataFile::~DataFile() {
  if (number_ >= 0) ::close(number_);
}

void DataFile::read(int64_t offset, std::span<std::byte> out) const {
  HETSYNTH_CHECK(offset >= 0, "offsets count from the beginning");
  if (number_ < 0) {
    HETSYNTH_CHECK(offset <= bytes_ - static_cast<int64_t>(out.size()), "the bytes lie in what was unpacked");
    std::copy_n(unpacked_.begin() + offset, out.size(), out.begin());
    return;
  }
  for (size_t done = 0; done < out.size();) {
    const ssize_t got = ::pread(number_, out.data() + done, out.size() - done,
                                static_cast<off_t>(begin_ + offset) + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw error(std::string("the file cannot be read: ") + std::strerror(errno));
    if (got == 0) {
      throw error("the file became shorter while it was used", fmt::format("{} bytes", bytes_),
                  fmt::format("its end at byte {}", offset + static_cast<int64_t>(done)),
                  "leave the data files alone while training runs");
    }
    done += static_cast<size_t>(got);
  }
}

std::vector<unsigned char> DataFile::head(int64_t count) const {
  std::vector<unsigned char> out(static_cast<size_t>(std::clamp<int64_t>(count, 0, bytes_)));
  read(0, std::as_writable_bytes(std::span(out)));
  return out;
}

UserError DataFile::error(const std::string& message, const std::string& expected, const std::string& found,
                          const std::string& mend) const {
  return data_error(path_, message, expected, found, mend);
}

}  // namespace hetsynth
