// One file of data, or a part of one, read in place.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/base/error.h"

namespace hetsynth {

/// An open file. It is read with pread and not mapped into memory: a mapped file that another program cuts short ends
/// the process with SIGBUS, while here the reader says what happened. Both go through the page cache.
class DataFile {
 public:
  /// Throws UserError naming the path if it is no regular file that can be read.
  explicit DataFile(std::string path);
  ~DataFile();
  /// What was unpacked from a file, as if it were a file of its own. `path` names it in messages.
  DataFile(std::string path, std::vector<std::byte> unpacked);
  DataFile(DataFile&& other) noexcept;
  DataFile& operator=(DataFile&&) = delete;
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;

  /// Bytes [begin, begin + bytes) as a file of their own, which may outlive this one. `path` names it in messages.
  DataFile part(std::string path, int64_t begin, int64_t bytes) const;

  const std::string& path() const { return path_; }
  int64_t bytes() const { return bytes_; }
  /// It lies in memory.
  bool unpacked() const { return number_ < 0; }
  /// Fills `out` from byte `offset` on. Throws UserError if the file ends before, or cannot be read any more. May be
  /// called by several threads.
  void read(int64_t offset, std::span<std::byte> out) const;
  /// The first bytes, at most `count`; fewer if the file is shorter.
  std::vector<unsigned char> head(int64_t count) const;
  /// The error of a damaged file. `found` should say at which byte or line.
  UserError error(const std::string& message, const std::string& expected = "", const std::string& found = "",
                  const std::string& mend = "") const;

 private:
  DataFile() = default;

  std::string path_;
  int64_t begin_ = 0;  ///< of a part, in the open file
  int64_t bytes_ = 0;
  int number_ = -1;  ///< of the open file; -1: it was unpacked
  std::vector<std::byte> unpacked_;
};

/// The error of data that cannot be used: "PATH: error: [data] message".
UserError data_error(const std::string& path, const std::string& message, const std::string& expected = "",
                     const std::string& found = "", const std::string& mend = "");

/// a * b of sizes read from a file. False if it does not fit.
inline bool multiply_exactly(int64_t a, int64_t b, int64_t* out) { return !__builtin_mul_overflow(a, b, out); }

/// "00 00 08 03": bytes as a hex dump shows them.
std::string hex(std::span<const unsigned char> bytes);

}  // namespace hetsynth
