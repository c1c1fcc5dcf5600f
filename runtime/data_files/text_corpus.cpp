#include "runtime/data_files/text_corpus.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "dsl/base/binary_file.h"
#include "dsl/base/error.h"
#include "runtime/data_files/part_names.h"

namespace hetsynth {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& path, const std::string& message, const std::string& mend = "") {
  throw UserError({{path, 0, 0}, "data", message, "", "", mend});
}

/// Paths of the regular files below a folder, ordered by bytes, so that the order does not depend on the file system.
std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->symlink_status(error).type() == fs::file_type::regular) out.push_back(it->path().string());
  }
  if (error) fail(folder, "the folder cannot be read: " + error.message());
  std::ranges::sort(out);
  return out;
}

/// Closes on all ways out.
struct OpenFile {
  explicit OpenFile(const std::string& path) : number(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (number < 0) fail(path, std::string("the file cannot be read: ") + std::strerror(errno));
  }
  ~OpenFile() { ::close(number); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int number;
};

/// Gives how many bytes were read: fewer than asked for where the file ends.
size_t read_some(const OpenFile& file, const std::string& path, int64_t offset, std::span<unsigned char> out) {
  for (size_t done = 0;;) {
    const ssize_t got = ::pread(file.number, out.data() + done, out.size() - done,
                                static_cast<off_t>(offset) + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path, std::string("the file cannot be read: ") + std::strerror(errno));
    done += static_cast<size_t>(got);
    if (got == 0 || done == out.size()) return done;
  }
}

void read_file(const std::string& path, int64_t offset, std::span<unsigned char> out) {
  if (read_some(OpenFile(path), path, offset, out) < out.size())
    fail(path, "the file became shorter while it was used", "leave the data files alone while training runs");
}

/// Every byte would be trained on, of a packed file too.
void refuse_binary_file(const OpenFile& file, const std::string& path) {
  std::array<unsigned char, binary_head_bytes> head{};
  const size_t bytes = read_some(file, path, 0, head);
  refuse_binary({reinterpret_cast<const char*>(head.data()), bytes}, path, "data");
}

}  // namespace

TextCorpus TextCorpus::open(const std::string& path, int64_t resident_bytes, bool may_be_empty) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) fail(path, "no such file or folder", "name an existing text file or folder with --data");
  const bool folder = fs::is_directory(status);
  if (!folder && !fs::is_regular_file(status)) fail(path, "neither a file nor a folder");

  TextCorpus corpus;
  corpus.path_ = path;
  const std::vector<std::string> files = folder ? files_below(path) : std::vector<std::string>{path};
  if (folder) check_parts_are_whole(files, path);
  for (const std::string& name : files) {
    const OpenFile file(name);  // unreadable files are told of now, not in the middle of training
    struct stat found {};
    if (::fstat(file.number, &found) != 0) fail(name, std::string("the file cannot be read: ") + std::strerror(errno));
    if (found.st_size == 0) continue;
    refuse_binary_file(file, name);
    corpus.files_.push_back({name, corpus.total_bytes_, static_cast<int64_t>(found.st_size)});
    corpus.total_bytes_ += static_cast<int64_t>(found.st_size);
  }
  if (corpus.total_bytes_ == 0 && !may_be_empty) {
    fail(path, folder ? "the folder holds no file with text" : "the file is empty",
         "name a text file or folder with --data");
  }
  if (corpus.total_bytes_ <= resident_bytes) {
    std::vector<unsigned char> bytes(static_cast<size_t>(corpus.total_bytes_));
    corpus.read(0, bytes);
    corpus.resident_ = std::move(bytes);
  }
  return corpus;
}

const TextCorpus::File& TextCorpus::file_at(int64_t offset) const {
  return *std::prev(std::ranges::upper_bound(files_, offset, {}, &File::start));
}

void TextCorpus::read(int64_t offset, std::span<unsigned char> out) const {
  HETSYNTH_CHECK(offset >= 0 && offset + static_cast<int64_t>(out.size()) <= total_bytes_,
                 "reading inside of the text");
  if (!resident_.empty()) {
    std::copy_n(resident_.begin() + offset, out.size(), out.begin());
    return;
  }
  while (!out.empty()) {
    const File& file = file_at(offset);
    const int64_t inside = offset - file.start;
    const auto part = static_cast<size_t>(std::min(file.bytes - inside, static_cast<int64_t>(out.size())));
    read_file(file.path, inside, out.first(part));
    out = out.subspan(part);
    offset += static_cast<int64_t>(part);
  }
}

std::vector<int64_t> TextCorpus::starts() const {
  std::vector<int64_t> out;
  for (const File& file : files_) out.push_back(file.start);
  return out;
}

std::pair<std::string, std::string> TextCorpus::place_of(int64_t offset) const {
  const File& file = file_at(offset);
  return {file.path, "byte " + std::to_string(offset - file.start)};
}

}  // namespace hetsynth
