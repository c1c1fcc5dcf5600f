// A cache of bytes on disk, by content hash: object files, precompiled headers, GPU code. Losing it costs time, never
// correctness.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hetsynth {

/// Where caches lie: $HETSYNTH_CACHE_DIR, else $XDG_CACHE_HOME/hetsynth, else ~/.cache/hetsynth, else hetsynth-<user>
/// in the temporary directory. Read from the environment at each call.
std::filesystem::path cache_directory();

/// A key from everything an entry depends on; the parts are kept apart, so {"ab","c"} and {"a","bc"} differ.
std::string cache_key(const std::vector<std::string_view>& parts);

/// One kind of entry ("objects"), a folder of the cache directory. Safe among threads and processes: entries are
/// written to a new file and renamed; an entry that is truncated, altered, or of another key reads as absent. A folder
/// that cannot be made or written, or in which another user could put files (dsl/jit/cache_folder.h), makes every
/// lookup a miss: no function here throws.
class DiskCache {
 public:
  explicit DiskCache(std::string kind, int64_t limit_bytes = int64_t(1) << 30);
  std::optional<std::string> load(const std::string& key) const;
  /// True if the entry was written. The first of a process prunes.
  bool store(const std::string& key, std::string_view bytes) const;
  void remove(const std::string& key) const;
  std::filesystem::path path(const std::string& key) const;
  /// Removes entries, those unused for longest first, until those that are left are within the limit; and what writers
  /// left that have died. Files that the cache did not write, as their headers tell, are neither counted nor removed.
  void prune() const;

 private:
  std::string kind_;
  int64_t limit_bytes_;
};

}  // namespace hetsynth
