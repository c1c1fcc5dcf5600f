#include "dsl/base/output_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "dsl/base/error.h"
#include "dsl/base/file.h"
#include "dsl/base/new_file.h"

namespace hetsynth {
namespace {

namespace fs = std::filesystem;

/// Marks stand behind what people write first, as a comment in a cluster file.
constexpr size_t most_looked_at = size_t(1) << 20;

std::string beginning_of(const std::string& path, size_t most) {
  std::string out(most, '\0');
  errno = 0;
  std::FILE* file = std::fopen(path.c_str(), "rb");
  const size_t got = file ? std::fread(out.data(), 1, out.size(), file) : 0;
  const bool failed = !file || std::ferror(file) != 0;
  const int error = errno;
  if (file) std::fclose(file);
  // What cannot be read may be anybody's.
  if (failed)
    throw UserError({.where = {path},
                     .message = fmt::format("the file that is to be replaced cannot be read: {}; it was left as it is",
                                            std::strerror(error)),
                     .mend = "name another file"},
                    ExitCode::failure);
  out.resize(got);
  return out;
}

[[noreturn]] void refuse(const std::string& path, const std::string& message) {
  throw UserError({.where = {path},
                   .message = message + "; it was left as it is",
                   .mend = "name another file, or remove this one if nobody needs it"});
}

}  // namespace

std::function<bool(std::string_view)> begins_with(std::string start, std::vector<std::string> marks) {
  return [start = std::move(start), marks = std::move(marks)](std::string_view beginning) {
    const auto has = [&](const std::string& mark) { return beginning.find(mark) != beginning.npos; };
    return beginning.starts_with(start) && std::ranges::all_of(marks, has);
  };
}

const OutputKind text_kind{"text", [](std::string_view beginning) { return beginning.find('\0') == beginning.npos; }};

void check_replaceable(const std::string& path, const OutputKind& kind) {
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) == 0) return;
  if (!kind.is_one(beginning_of(path, most_looked_at)))
    refuse(path, fmt::format("the file exists and is no {}", kind.what));
}

void check_not_read(const std::string& path, const std::string& what, std::span<const std::string> inputs) {
  std::error_code error;
  for (const std::string& input : inputs)
    if (!input.empty() && fs::is_regular_file(input, error) && fs::equivalent(path, input, error))
      refuse(path, fmt::format("the {} would take the place of a file that this command reads", what));
}

bool is_same_place(const std::string& a, const std::string& b) {
  std::error_code error;
  const auto resolved = [&](const std::string& path) { return fs::weakly_canonical(fs::absolute(path, error), error); };
  return fs::equivalent(a, b, error) || resolved(a) == resolved(b);
}

void check_output(const std::string& path, const OutputKind& kind, std::span<const std::string> inputs) {
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_regular_file(path, error) && !fs::is_directory(path, error)) return;
  check_not_read(path, kind.what, inputs);
  check_replaceable(path, kind);
  check_writable(path, kind.what);
}

void write_output(const std::string& path, const OutputKind& kind, std::string_view bytes) {
  check_replaceable(path, kind);
  write_file_atomically(path, kind.what, bytes);
}

void write_edited_output(const std::string& path, const OutputKind& kind, std::string_view bytes) {
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) == 0) return write_output(path, kind, bytes);
  if (beginning_of(path, bytes.size() + 1) == bytes) return;
  const std::string previous = path + ".previous";
  for (const std::string& name : {path, previous}) check_replaceable(name, kind);
  NewFile file(path, kind.what);
  file.write(std::as_bytes(std::span(bytes)));
  file.place(fs::path(previous).filename().string());
}

}  // namespace hetsynth
