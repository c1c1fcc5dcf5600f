#include "dsl/jit/disk_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <set>

#include "dsl/base/hash.h"

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

/// Makes the folder for this user alone. False if it cannot be used, or another user could have put code there.
bool prepare_folder(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) {
    fs::create_directories(folder.parent_path(), error);
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return false;
  }
  struct stat status;
  return ::stat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid() &&
         !(status.st_mode & (S_IWGRP | S_IWOTH));
}

bool write_file(const fs::path& path, std::string_view header, std::string_view payload) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(header.data(), std::streamsize(header.size()));
  out.write(payload.data(), std::streamsize(payload.size()));
  out.close();
  return bool(out);
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
  fs::path file = path(key);
  if (!prepare_folder(file.parent_path())) return std::nullopt;
  int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return std::nullopt;
  struct stat status;
  std::string bytes;
  if (::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode)) {
    bytes.resize(size_t(status.st_size));
    size_t filled = 0;
    while (filled < bytes.size()) {
      ssize_t got = ::read(descriptor, bytes.data() + filled, bytes.size() - filled);
      if (got <= 0) break;
      filled += size_t(got);
    }
    bytes.resize(filled);
    ::futimens(descriptor, nullptr);  // the time of last use decides what is pruned
  }
  ::close(descriptor);
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
  static std::atomic<uint64_t> counter{0};
  fs::path file = path(key);
  if (!prepare_folder(file.parent_path())) return false;
  static std::mutex mutex;
  static std::set<fs::path> pruned;
  bool first = false;
  {
    std::lock_guard lock(mutex);
    first = pruned.insert(file.parent_path()).second;
  }
  if (first) prune();
  fs::path temporary = file;
  temporary += fmt::format(".{}.{}.tmp", ::getpid(), counter++);
  std::error_code error;
  if (write_file(temporary, header_of(key, bytes), bytes)) {
    fs::rename(temporary, file, error);
    if (!error) return true;
  }
  fs::remove(temporary, error);
  return false;
}

void DiskCache::remove(const std::string& key) const {
  std::error_code error;
  fs::remove(path(key), error);
}

void DiskCache::prune() const {
  struct Entry {
    fs::file_time_type used;
    fs::path path;
    int64_t bytes;
    auto operator<=>(const Entry&) const = default;
  };
  std::vector<Entry> entries;
  int64_t total = 0;
  std::error_code error;
  auto hour_ago = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (fs::directory_iterator at(cache_directory() / kind_, error), end; !error && at != end; at.increment(error)) {
    std::error_code entry_error;
    auto used = at->last_write_time(entry_error);
    auto bytes = int64_t(entry_error ? 0 : at->file_size(entry_error));
    if (entry_error) continue;
    if (at->path().extension() == ".tmp" && used < hour_ago)
      fs::remove(at->path(), entry_error);  // left by a killed writer
    entries.push_back({used, at->path(), bytes});
    total += bytes;
  }
  std::sort(entries.begin(), entries.end());
  for (const Entry& entry : entries) {
    if (total <= limit_bytes_) break;
    std::error_code remove_error;
    fs::remove(entry.path, remove_error);
    total -= entry.bytes;
  }
}

}  // namespace hetsynth
