#include "dsl/jit/cache_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace hetsynth {
namespace fs = std::filesystem;
namespace {

/// Who owns the program can have it do anything already.
bool is_trusted(uid_t owner) {
  if (owner == 0 || owner == ::geteuid()) return true;
  struct stat program {};
  return ::stat("/proc/self/exe", &program) == 0 && program.st_uid == owner;
}

/// A group of the user's own, as many systems give one to each: named as the user is, and nobody else is in it.
bool is_own_group(gid_t group) {
  const passwd* user = ::getpwuid(::geteuid());
  const std::string name = user ? user->pw_name : "";
  const struct group* found = ::getgrgid(group);
  if (!found || name.empty() || name != found->gr_name) return false;
  for (char** member = found->gr_mem; *member; ++member)
    if (name != *member) return false;
  return true;
}

/// Why others could put files there; "" if they cannot.
std::string unsafe(const struct stat& status, bool last) {
  if (last && status.st_uid != ::geteuid()) return "belongs to another user";
  if (!is_trusted(status.st_uid)) return "belongs to another user";
  const bool everyone = status.st_mode & S_IWOTH;
  const bool others = everyone || ((status.st_mode & S_IWGRP) && !is_own_group(status.st_gid));
  // Where only owners may remove and rename, what belongs to this user stays.
  const bool sticky = (status.st_mode & S_ISVTX) && !last;
  return others && !sticky ? "can be written by other users" : "";
}

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

Descriptor open_own_folder(const fs::path& folder, std::string* problem) {
  const auto fail = [&](const fs::path& path, const std::string& why) {
    if (problem) *problem = fmt::format("{} {}", path.string(), why);
    return Descriptor();
  };
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(fs::absolute(folder, error), error);
  if (error || whole.empty()) return fail(folder, "cannot be found: " + error.message());
  fs::path so_far = "/";
  Descriptor at(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (const fs::path& part : whole.relative_path()) {
    if (part.empty() || part == ".") continue;
    so_far /= part;
    constexpr int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    Descriptor next(::openat(at.number(), part.c_str(), flags));
    if (!next && errno == ENOENT && (::mkdirat(at.number(), part.c_str(), 0700) == 0 || errno == EEXIST))
      next = Descriptor(::openat(at.number(), part.c_str(), flags));
    struct stat status {};
    if (!next || ::fstat(next.number(), &status) != 0)
      return fail(so_far, fmt::format("cannot be opened: {}", std::strerror(errno)));
    const std::string why = unsafe(status, so_far == whole);
    if (!why.empty()) return fail(so_far, why);
    at = std::move(next);
  }
  Descriptor open(::openat(at.number(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!open) return fail(whole, fmt::format("cannot be opened: {}", std::strerror(errno)));
  return open;
}

}  // namespace hetsynth
