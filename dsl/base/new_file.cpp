#include "dsl/base/new_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "dsl/base/error.h"
#include "dsl/base/hash.h"

namespace hetsynth {
namespace {

namespace fs = std::filesystem;

/// Repeats a system call that a signal broke off.
template <class Call>
auto uninterrupted(const Call& call) {
  while (true) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

uint64_t unpredictable() {
  uint64_t out = 0;
  if (::getrandom(&out, sizeof out, GRND_NONBLOCK) == ssize_t(sizeof out)) return out;
  // O_EXCL guards what a guess could do; the name has to differ from others all the same.
  return uint64_t(std::chrono::steady_clock::now().time_since_epoch().count()) * 0x9E3779B97F4A7C15u +
         uint64_t(::getpid());
}

/// What the names of all new files for one place begin with. Of one length, however long the place's name is.
std::string prefix_of(const std::string& name) { return fmt::format(".hetsynth-{}-", content_hash(name)); }

std::string mend_of(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return "name a file in a folder that exists";
    case EACCES:
    case EPERM:
    case EROFS:
      return "name a file in a folder that you may write to";
    case ENOSPC:
    case EDQUOT:
      return "make room on the disk, or name a file on another one; what stood there is as it was";
    case ENAMETOOLONG:
      return "give the file a shorter name";
    default:
      return "";
  }
}

/// Some file systems have no hard links.
bool cannot_link(int error) {
  return error == EPERM || error == EOPNOTSUPP || error == ENOSYS || error == EMLINK || error == EXDEV;
}

}  // namespace

NewFile::NewFile(const std::string& path, std::string what) : path_(path), what_(std::move(what)) {
  fs::path target = path;
  unsigned mode = 0666;
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) refuse(EISDIR, "");
    if (!S_ISREG(status.st_mode)) refuse(0, "it is not a regular file");
    mode = status.st_mode & 0777;  // a private file stays private
    // The file that a link points to is written, not the link.
    std::error_code error;
    target = fs::canonical(path, error);
    if (error) refuse(error.value(), "");
  } else if (errno != ENOENT) {
    refuse(errno, "");
  }
  folder_ = target.parent_path().empty() ? "." : target.parent_path().string();
  name_ = target.filename().string();
  if (name_.empty() || name_ == "." || name_ == "..") refuse(EISDIR, "");
  try {
    open_folder();
    remove_abandoned();
    open_new(mode);
  } catch (...) {
    if (number_ >= 0) ::close(number_);
    if (folder_number_ >= 0) ::close(folder_number_);
    throw;
  }
}

NewFile::~NewFile() {
  if (!placed_) ::unlinkat(folder_number_, temporary_.c_str(), 0);
  if (number_ >= 0) ::close(number_);
  if (folder_number_ >= 0) ::close(folder_number_);
}

void NewFile::refuse(int error, const std::string& doing) const {
  std::string reason = doing;
  if (error != 0) reason = fmt::format("{}{}{}", doing, doing.empty() ? "" : ": ", std::strerror(error));
  throw UserError({.where = {path_},
                   .message = fmt::format("cannot write the {}: {}", what_, reason),
                   .mend = error == EISDIR ? "name a file, not a folder" : mend_of(error)},
                  ExitCode::failure);
}

void NewFile::open_folder() {
  folder_number_ = uninterrupted([&] { return ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (folder_number_ < 0) refuse(errno, folder_ == "." ? "" : "the folder " + folder_);
}

/// A writer locks its file as long as it lives: one that can be locked was left by a writer that died. What cannot be
/// looked at or removed is left alone.
void NewFile::remove_abandoned() const {
  const int listing = ::openat(folder_number_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (listing < 0) return;
  DIR* const folder = ::fdopendir(listing);
  if (!folder) {
    ::close(listing);
    return;
  }
  const std::string prefix = prefix_of(name_);
  while (const dirent* entry = ::readdir(folder)) {
    const std::string_view name = entry->d_name;
    if (!name.starts_with(prefix) || !name.ends_with(".tmp")) continue;
    const int file = ::openat(folder_number_, entry->d_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) continue;
    struct stat status {};
    const bool own = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == ::geteuid();
    if (own && ::flock(file, LOCK_EX | LOCK_NB) == 0) ::unlinkat(folder_number_, entry->d_name, 0);
    ::close(file);
  }
  ::closedir(folder);
}

void NewFile::open_new(unsigned mode) {
  number_ = make_locked_file(folder_number_, prefix_of(name_), ".tmp", mode, &temporary_);
  if (number_ < 0) refuse(errno, "");
  temporary_path_ = (fs::path(folder_) / temporary_).string();
}

void NewFile::put(std::span<const std::byte> bytes, int64_t offset) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t got = uninterrupted(
        [&] { return ::pwrite(number_, bytes.data() + done, bytes.size() - done, off_t(offset) + off_t(done)); });
    if (got < 0) refuse(errno, "");
    if (got == 0) refuse(EIO, "");
    done += size_t(got);
  }
}

void NewFile::write(std::span<const std::byte> bytes) {
  put(bytes, bytes_);
  bytes_ += int64_t(bytes.size());
}

void NewFile::write_at(int64_t offset, std::span<const std::byte> bytes) {
  HETSYNTH_CHECK(offset >= 0 && offset + int64_t(bytes.size()) <= bytes_, "only what was written is overwritten");
  put(bytes, offset);
}

const std::string& NewFile::sync() {
  if (uninterrupted([&] { return ::fsync(number_); }) != 0) refuse(errno, "its bytes did not reach the disk");
  return temporary_path_;
}

/// A second name for what stands at the place. Where there are no hard links it is moved away, and for a moment nothing
/// stands at the place.
bool NewFile::link_as(const std::string& path, const std::string& as, const std::string& doing) const {
  const std::string link = fmt::format("{}{:016x}.tmp", prefix_of(name_), unpredictable());
  if (::linkat(folder_number_, path.c_str(), folder_number_, link.c_str(), 0) != 0) {
    if (cannot_link(errno)) return false;
    refuse(errno, doing);
  }
  const int error = ::renameat(folder_number_, link.c_str(), folder_number_, as.c_str()) == 0 ? 0 : errno;
  // Renaming one name of a file to another of its names does nothing and leaves both.
  ::unlinkat(folder_number_, link.c_str(), 0);
  if (error != 0) refuse(error, doing);
  return true;
}

void NewFile::keep_as(const std::string& previous) {
  struct stat status {};
  if (::fstatat(folder_number_, name_.c_str(), &status, 0) != 0) {
    if (errno == ENOENT) return;
    refuse(errno, "");
  }
  const std::string doing = "the previous one could not be kept as " + previous;
  if (link_as(name_, previous, doing)) return;
  if (::renameat(folder_number_, name_.c_str(), folder_number_, previous.c_str()) != 0) refuse(errno, doing);
}

void NewFile::place(const std::string& previous) {
  sync();
  if (!previous.empty()) keep_as(previous);
  if (::renameat(folder_number_, temporary_.c_str(), folder_number_, name_.c_str()) != 0) refuse(errno, "");
  placed_ = true;
  // Network file systems tell of failed writes no later than here.
  const int number = std::exchange(number_, -1);
  if (::close(number) != 0 && errno != EINTR) refuse(errno, "its bytes may not have reached the disk");
  // Not every file system syncs folders; one that does and fails has perhaps lost the rename.
  if (uninterrupted([&] { return ::fsync(folder_number_); }) != 0 && errno != EINVAL && errno != EROFS)
    refuse(errno, "it is in place, but the folder did not reach the disk");
}

void NewFile::become(const std::string& from) {
  std::error_code error;
  const fs::path file = fs::canonical(from, error);
  if (error) refuse(error.value(), from);
  if (link_as(file.string(), name_, "")) return;
  std::ifstream in(file, std::ios::binary);
  std::vector<char> buffer(size_t{1} << 20);
  while (in.read(buffer.data(), std::streamsize(buffer.size())), in.gcount() > 0)
    write(std::as_bytes(std::span(buffer.data(), size_t(in.gcount()))));
  if (!in.eof()) refuse(0, from + " cannot be read");
  place();
}

int make_locked_file(int folder, std::string_view prefix, std::string_view ending, unsigned mode, std::string* name) {
  constexpr int most_tries = 100;
  for (int tries = 0; tries < most_tries; ++tries) {
    *name = fmt::format("{}{:016x}{}", prefix, unpredictable(), ending);
    const int number = uninterrupted(
        [&] { return ::openat(folder, name->c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode); });
    if (number < 0 && errno == EEXIST) continue;
    if (number < 0) return -1;
    // Without locks the file is not taken for an abandoned one either: nobody else can lock it.
    (void)uninterrupted([&] { return ::flock(number, LOCK_EX); });
    struct stat status {};
    const int error = ::fstat(number, &status) == 0 ? 0 : errno;
    if (error == 0 && status.st_nlink > 0) return number;
    ::close(number);
    if (error == 0) continue;  // another writer took it for abandoned before it was locked
    ::unlinkat(folder, name->c_str(), 0);
    errno = error;
    return -1;
  }
  errno = EEXIST;
  return -1;
}

void share_file(const std::string& from, const std::string& to, const std::string& what) {
  NewFile copy(to, what);
  copy.become(from);
}

std::string make_temporary_folder(const std::string& prefix) {
  std::string pattern = (std::filesystem::temp_directory_path() / (prefix + "XXXXXX")).string();  // mkdtemp fills these
  if (!::mkdtemp(pattern.data()))
    throw UserError({.where = {pattern}, .message = fmt::format("no folder can be made: {}", std::strerror(errno))},
                    ExitCode::failure);
  return pattern;
}

void check_writable(const std::string& path, const std::string& what) { const NewFile probe(path, what); }

}  // namespace hetsynth
