// Files in a zip archive, as numpy.savez writes it.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dsl/base/data_file.h"

namespace hetsynth {

/// The archive's directory (PKWARE's APPNOTE.TXT 6.3.10), with the extensions of zip64. Stored files are read in place;
/// deflated ones are unpacked into memory.
class ZipArchive {
 public:
  /// Throws UserError naming the path if it is no archive in one part, or damaged.
  explicit ZipArchive(const std::string& path);
  std::vector<std::string> names() const;
  /// A file that is called "ARCHIVE/NAME" in messages. Throws UserError if it is damaged, encrypted, packed in another
  /// way, or unpacked larger than `limit`; of what is deflated the checksum is compared.
  DataFile open(const std::string& name, int64_t limit) const;

 private:
  struct Entry {
    int64_t offset = 0;  ///< of the local header
    int64_t packed = 0, unpacked = 0;
    uint32_t checksum = 0;
    int method = 0, flags = 0;
  };
  void find_directory();
  void read_directory(int64_t begin, int64_t bytes, int64_t count);
  std::vector<std::byte> inflated(const std::string& path, const Entry& entry, int64_t begin) const;

  DataFile file_;
  int64_t directory_begin_ = 0;
  std::map<std::string, Entry> entries_;
};

}  // namespace hetsynth
