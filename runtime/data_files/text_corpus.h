// The bytes of a text file, or of all files of a folder, as one sequence.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hetsynth {

class TextCorpus {
 public:
  /// A file, or a folder: all regular files below it (symbolic links are not followed), ordered by path. Texts up to
  /// `resident_bytes` in total are read into memory; larger ones are read from disk as needed. Throws UserError naming
  /// the path if it does not exist, cannot be read, or holds no bytes unless it may, and for a file that is known to be
  /// no text, or if parts of a numbered set are missing (part_names.h).
  static TextCorpus open(const std::string& path, int64_t resident_bytes = int64_t{256} << 20,
                         bool may_be_empty = false);

  int64_t bytes() const { return total_bytes_; }
  /// Where each file begins.
  std::vector<int64_t> starts() const;
  int files() const { return static_cast<int>(files_.size()); }
  const std::string& path() const { return path_; }
  /// Bytes [offset, offset + out.size()). Throws UserError if a file has become shorter or unreadable since.
  void read(int64_t offset, std::span<unsigned char> out) const;
  /// File, and "byte 17": where a byte of the sequence lies.
  std::pair<std::string, std::string> place_of(int64_t offset) const;

 private:
  struct File {
    std::string path;
    int64_t start = 0;  ///< of its first byte in the sequence
    int64_t bytes = 0;
  };
  const File& file_at(int64_t offset) const;
  std::string path_;
  std::vector<File> files_;
  int64_t total_bytes_ = 0;
  std::vector<unsigned char> resident_;
};

}  // namespace hetsynth
