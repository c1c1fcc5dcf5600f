// Text files, read in blocks that can be encoded one by one.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hetsynth {

struct TextFile {
  std::string path;
  int64_t bytes = 0;
};

/// The files named, and all regular files below the folders named (symbolic links in them are not followed), each
/// folder's ordered by path; without `without`, the file that is about to be written. Empty files are left out. Throws
/// UserError for what does not exist or cannot be read, and if there is no text at all.
std::vector<TextFile> text_files(const std::vector<std::string>& inputs, const std::string& without = "");

/// A part of a file, valid UTF-8.
struct TextBlock {
  std::string text;
  bool first = true;  ///< of its file
  bool last = true;
};

struct BlockReading {
  bool cut_at_lines = false;  ///< cut long files behind line feeds that something other than space follows
  int64_t bytes = 1 << 20;    ///< of a block, about; a file without such a place is one block
};

/// Reads files one after the other.
class TextBlocks {
 public:
  TextBlocks(std::vector<TextFile> files, BlockReading reading);
  ~TextBlocks();
  TextBlocks(const TextBlocks&) = delete;
  TextBlocks& operator=(const TextBlocks&) = delete;

  struct Raw {
    std::string text;  ///< not checked yet
    size_t file = 0;
    int64_t offset = 0;  ///< of its first byte in the file
    bool first = true, last = true;
  };
  /// The next block; none after the last. Throws UserError if a file cannot be read.
  std::optional<Raw> next();
  int64_t total_bytes() const { return total_; }
  int64_t bytes_read() const { return read_; }

  /// What is encoded of a block. Throws UserError naming file, line and byte if it is no UTF-8, unless that is to be
  /// replaced by U+FFFD. May be called by several threads.
  TextBlock checked(Raw raw, bool replace_invalid) const;

 private:
  void open_next();
  void read_more(size_t bytes);

  std::vector<TextFile> files_;
  BlockReading reading_;
  size_t file_ = 0;      ///< that is being read, or is next
  int number_ = -1;      ///< its descriptor
  std::string waiting_;  ///< read, and not given out yet
  int64_t offset_ = 0;   ///< of `waiting_` in the file
  bool ended_ = false;   ///< nothing is left of the file but `waiting_`
  int64_t total_ = 0, read_ = 0;
};

}  // namespace hetsynth
