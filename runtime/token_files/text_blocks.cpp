#include "runtime/token_files/text_blocks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "dsl/base/binary_file.h"
#include "dsl/base/error.h"
#include "runtime/unicode/utf8.h"

namespace hetsynth {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_input(const std::string& path, const std::string& message, const std::string& mend = "") {
  throw UserError({.where = {path}, .tag = "tokenize", .message = message, .mend = mend});
}

/// --replace-invalid would make U+FFFD of every byte of a packed file.
void refuse_binary_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string head(binary_head_bytes, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(file.gcount()));
  refuse_binary(head, path, "tokenize");
}

std::vector<std::string> regular_files_below(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->symlink_status(error).type() == fs::file_type::regular) out.push_back(it->path().string());
  }
  if (error) refuse_input(folder, "the folder cannot be read: " + error.message());
  std::ranges::sort(out);
  return out;
}

/// Whether no tokenizer takes what begins here for space, whatever comes after.
bool begins_with_a_sign(std::string_view rest) {
  const auto first = static_cast<unsigned char>(rest[0]);
  if (first < 0x80) return first > 0x20 && first < 0x7F;
  // Space beyond ASCII begins with these: U+0085, U+1680, U+2000 and the like, U+3000.
  if (first == 0xE3) return rest.size() > 1 && static_cast<unsigned char>(rest[1]) > 0x80;
  return first > 0xC2 && first != 0xE1 && first != 0xE2;
}

/// Where the last line begins at which the text can be cut; 0: nowhere.
size_t last_cut(std::string_view text) {
  for (size_t at = text.size(); at-- > 1;) {
    if (text[at - 1] == '\n' && begins_with_a_sign(text.substr(at))) return at;
  }
  return 0;
}

int line_of(const std::string& path, int64_t offset) {
  std::ifstream file(path, std::ios::binary);
  int line = 1;
  char c = 0;
  for (int64_t at = 0; at < offset && file.get(c); ++at) line += c == '\n';
  return line;
}

}  // namespace

std::vector<TextFile> text_files(const std::vector<std::string>& inputs, const std::string& without) {
  std::vector<TextFile> out;
  std::error_code error;
  for (const std::string& input : inputs) {
    const fs::file_status status = fs::status(input, error);
    if (!fs::exists(status)) refuse_input(input, "no such file or folder", "name text files or folders of them");
    const bool folder = fs::is_directory(status);
    if (!folder && !fs::is_regular_file(status)) refuse_input(input, "neither a file nor a folder");
    for (const std::string& path : folder ? regular_files_below(input) : std::vector<std::string>{input}) {
      if (!without.empty() && fs::equivalent(path, without, error)) continue;
      const auto bytes = static_cast<int64_t>(fs::file_size(path, error));
      if (error) refuse_input(path, "the file cannot be read: " + error.message());
      if (bytes == 0) continue;
      refuse_binary_file(path);
      out.push_back({path, bytes});
    }
  }
  if (out.empty()) {
    refuse_input(inputs.empty() ? "" : inputs.front(), "there is no text to tokenize",
                 "name text files or folders that are not empty");
  }
  return out;
}

TextBlocks::TextBlocks(std::vector<TextFile> files, BlockReading reading)
    : files_(std::move(files)), reading_(reading) {
  for (const TextFile& file : files_) total_ += file.bytes;
}

TextBlocks::~TextBlocks() {
  if (number_ >= 0) ::close(number_);
}

void TextBlocks::open_next() {
  const std::string& path = files_[file_].path;
  number_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (number_ < 0) refuse_input(path, std::string("the file cannot be read: ") + std::strerror(errno));
  offset_ = 0;
  ended_ = false;
}

void TextBlocks::read_more(size_t bytes) {
  const size_t before = waiting_.size();
  waiting_.resize(before + bytes);
  size_t done = 0;
  while (done < bytes) {
    const ssize_t got = ::read(number_, waiting_.data() + before + done, bytes - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse_input(files_[file_].path, std::string("the file cannot be read: ") + std::strerror(errno));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  waiting_.resize(before + done);
  read_ += static_cast<int64_t>(done);
  ended_ = done < bytes;
}

std::optional<TextBlocks::Raw> TextBlocks::next() {
  if (number_ < 0) {
    if (file_ == files_.size()) return {};
    open_next();
  }
  Raw out{.text = {}, .file = file_, .offset = offset_, .first = offset_ == 0, .last = false};
  const auto wanted = static_cast<size_t>(reading_.bytes);
  size_t cut = 0;
  while (!ended_ && cut == 0) {
    if (waiting_.size() < wanted) {
      read_more(wanted + 1 - waiting_.size());
    } else {
      read_more(std::max(wanted, waiting_.size()));
    }
    if (!ended_ && reading_.cut_at_lines) cut = last_cut(waiting_);
  }
  if (cut == 0 && reading_.cut_at_lines && waiting_.size() > 2 * wanted) cut = last_cut(waiting_);
  if (cut == 0) cut = waiting_.size();
  out.last = ended_ && cut == waiting_.size();
  out.text = waiting_.substr(0, cut);
  waiting_.erase(0, cut);
  offset_ += static_cast<int64_t>(cut);
  if (out.last) {
    ::close(number_);
    number_ = -1;
    ++file_;
  }
  return out;
}

TextBlock TextBlocks::checked(Raw raw, bool replace_invalid) const {
  const size_t at = unicode::first_invalid(raw.text);
  if (at != std::string::npos) {
    const std::string& path = files_[raw.file].path;
    const int64_t offset = raw.offset + static_cast<int64_t>(at);
    if (!replace_invalid) {
      throw UserError({.where = {path, line_of(path, offset)},
                       .tag = "tokenize",
                       .message = "the text is no UTF-8",
                       .expected = "text in UTF-8",
                       .found = fmt::format("byte 0x{:02X} at byte {} of the file",
                                            static_cast<unsigned char>(raw.text[at]), offset),
                       .mend = fmt::format("convert it (iconv -f LATIN1 -t UTF-8 {} -o NEW), leave it out, or put "
                                           "U+FFFD there with --replace-invalid",
                                           path)});
    }
    raw.text = unicode::with_replacements(raw.text);
  }
  return {std::move(raw.text), raw.first, raw.last};
}

}  // namespace hetsynth
