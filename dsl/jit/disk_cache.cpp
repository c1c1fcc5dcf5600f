#include "dsl/jit/disk_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <set>
#include <utility>

#include "dsl/base/hash.h"
#include "dsl/base/new_file.h"
#include "dsl/jit/cache_folder.h"

namespace hetsynth {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view magic = "hetsynth cache 1";

/// What stands before the payload: its length and checksum, and the key it was stored under.
std::string header_of(const std::string& key, std::string_view payload) {
  return fmt::format("{}\n{}\n{} {}\n", magic, key, payload.size(), content_hash(payload));
}

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? value : nullptr;
}

constexpr std::string_view new_prefix = ".new-";

bool put(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(file, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    bytes.remove_prefix(size_t(done));
  }
  return true;
}

/// A file of the folder that is this user's alone; none otherwise. Never waits, never follows a link.
Descriptor open_entry(const Descriptor& folder, const std::string& name, struct stat& status) {
  Descriptor file(::openat(folder.number(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  const bool own = file && ::fstat(file.number(), &status) == 0 && S_ISREG(status.st_mode) &&
                   status.st_uid == ::geteuid() && !(status.st_mode & S_IWOTH);
  return own ? std::move(file) : Descriptor();
}

std::string first_bytes(const Descriptor& file, size_t count) {
  std::string out(count, '\0');
  const ssize_t got = ::pread(file.number(), out.data(), count, 0);
  out.resize(size_t(std::max<ssize_t>(got, 0)));
  return out;
}

/// Whether the cache wrote the file, under the name that it has. All else is somebody else's and left alone.
bool is_own_entry(const Descriptor& file, const std::string& name) {
  const std::string start = fmt::format("{}\n{}\n", magic, name);
  return first_bytes(file, start.size()) == start;
}

/// Whether a writer made the file and has died: a living one holds its lock.
bool is_abandoned(const Descriptor& file, const std::string& name) {
  if (!name.starts_with(new_prefix)) return false;
  const std::string start = first_bytes(file, magic.size());
  return (start.empty() || start == magic) && ::flock(file.number(), LOCK_EX | LOCK_NB) == 0;
}

std::vector<std::string> names_in(const Descriptor& folder) {
  std::vector<std::string> out;
  const int listing = ::openat(folder.number(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const open = listing < 0 ? nullptr : ::fdopendir(listing);
  if (!open) {
    if (listing >= 0) ::close(listing);
    return out;
  }
  while (const dirent* entry = ::readdir(open)) out.emplace_back(entry->d_name);
  ::closedir(open);
  return out;
}

}  // namespace

fs::path cache_directory() {
  if (const char* given = environment("HETSYNTH_CACHE_DIR")) return given;
  if (const char* xdg = environment("XDG_CACHE_HOME")) return fs::path(xdg) / "hetsynth";
  if (const char* home = environment("HOME"); home && ::access(home, W_OK) == 0)
    return fs::path(home) / ".cache" / "hetsynth";
  std::error_code error;
  fs::path temporary = fs::temp_directory_path(error);
  return (error ? fs::path("/tmp") : temporary) / fmt::format("hetsynth-{}", ::geteuid());
}

std::string cache_key(const std::vector<std::string_view>& parts) {
  std::string all;
  for (std::string_view part : parts) {
    all += fmt::format("{}:", part.size());
    all += part;
  }
  return wide_content_hash(all);
}

DiskCache::DiskCache(std::string kind, int64_t limit_bytes) : kind_(std::move(kind)), limit_bytes_(limit_bytes) {}

fs::path DiskCache::path(const std::string& key) const { return cache_directory() / kind_ / key; }

std::optional<std::string> DiskCache::load(const std::string& key) const {
  const Descriptor folder = open_own_folder(cache_directory() / kind_);
  if (!folder) return std::nullopt;
  struct stat status {};
  const Descriptor file = open_entry(folder, key, status);
  if (!file) return std::nullopt;
  std::string bytes(size_t(status.st_size), '\0');
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = ::read(file.number(), bytes.data() + filled, bytes.size() - filled);
    if (got <= 0) break;
    filled += size_t(got);
  }
  bytes.resize(filled);
  ::futimens(file.number(), nullptr);  // the time of last use decides what is pruned
  size_t end = 0;
  for (int line = 0; line < 3 && end != std::string::npos; ++line) {
    end = bytes.find('\n', end);
    if (end != std::string::npos) ++end;
  }
  if (end == std::string::npos || end == 0) return std::nullopt;
  std::string_view payload = std::string_view(bytes).substr(end);
  if (std::string_view(bytes).substr(0, end) != header_of(key, payload)) return std::nullopt;
  bytes.erase(0, end);
  return bytes;
}

bool DiskCache::store(const std::string& key, std::string_view bytes) const {
  const fs::path path = cache_directory() / kind_;
  const Descriptor folder = open_own_folder(path);
  if (!folder) return false;
  static std::mutex mutex;
  static std::set<fs::path> pruned;
  bool first = false;
  {
    std::lock_guard lock(mutex);
    first = pruned.insert(path).second;
  }
  if (first) prune();
  std::string temporary;
  const Descriptor file(make_locked_file(folder.number(), new_prefix, "", 0600, &temporary));
  if (!file) return false;
  if (put(file.number(), header_of(key, bytes)) && put(file.number(), bytes) &&
      ::renameat(folder.number(), temporary.c_str(), folder.number(), key.c_str()) == 0)
    return true;
  ::unlinkat(folder.number(), temporary.c_str(), 0);
  return false;
}

void DiskCache::remove(const std::string& key) const {
  const Descriptor folder = open_own_folder(cache_directory() / kind_);
  struct stat status {};
  if (folder && is_own_entry(open_entry(folder, key, status), key)) ::unlinkat(folder.number(), key.c_str(), 0);
}

void DiskCache::prune() const {
  struct Entry {
    std::pair<int64_t, int64_t> used;
    std::string name;
    int64_t bytes;
    auto operator<=>(const Entry&) const = default;
  };
  const Descriptor folder = open_own_folder(cache_directory() / kind_);
  if (!folder) return;
  std::vector<Entry> entries;
  int64_t total = 0;
  for (const std::string& name : names_in(folder)) {
    struct stat status {};
    const Descriptor file = open_entry(folder, name, status);
    if (!file) continue;
    if (is_abandoned(file, name)) ::unlinkat(folder.number(), name.c_str(), 0);
    if (!is_own_entry(file, name)) continue;
    entries.push_back({{status.st_mtim.tv_sec, status.st_mtim.tv_nsec}, name, status.st_size});
    total += status.st_size;
  }
  std::sort(entries.begin(), entries.end());
  for (const Entry& entry : entries) {
    if (total <= limit_bytes_) break;
    ::unlinkat(folder.number(), entry.name.c_str(), 0);
    total -= entry.bytes;
  }
}

}  // namespace hetsynth
