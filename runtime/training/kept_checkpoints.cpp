#include "runtime/training/kept_checkpoints.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <span>
#include <vector>

#include "dsl/base/error.h"
#include "dsl/base/new_file.h"

namespace hetsynth {
namespace {

namespace fs = std::filesystem;

void copy_whole(const std::string& from, const std::string& to) {
  std::ifstream in(from, std::ios::binary);
  NewFile out(to, "checkpoint");
  std::vector<char> buffer(size_t{1} << 20);
  while (in.read(buffer.data(), std::streamsize(buffer.size())), in.gcount() > 0)
    out.write(std::as_bytes(std::span(buffer.data(), size_t(in.gcount()))));
  if (!in.eof())
    throw UserError({.where = {from}, .tag = "checkpoint", .message = "the file cannot be read any more"},
                    ExitCode::failure);
  out.place();
}

/// Gives the file at `from` another name, in place of what has that name.
void share(const std::string& from, const std::string& to) {
  const std::string between = fmt::format("{}.{}.tmp", to, ::getpid());
  std::error_code error;
  fs::create_hard_link(from, between, error);
  if (!error) fs::rename(between, to, error);
  if (!error) return;
  std::error_code ignored;
  fs::remove(between, ignored);
  copy_whole(from, to);  // a file system without hard links
}

}  // namespace

KeepRule keep_rule(const std::string& text) {
  if (text == "last") return {};
  if (text == "best") return {.best = true};
  KeepRule out;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out.last);
  if (error == std::errc() && end == text.data() + text.size() && out.last >= 1) return out;
  throw UserError({.tag = "--keep",
                   .message = "this does not say which checkpoints to keep",
                   .expected = "last, best, or how many of the last",
                   .found = text},
                  ExitCode::usage);
}

std::string best_checkpoint(const std::string& path) { return path + ".best"; }

std::string checkpoint_of_step(const std::string& path, int64_t next_step) {
  return fmt::format("{}.{}", path, next_step);
}

void KeptCheckpoints::written(int64_t next_step, bool is_best) {
  if (rule_.best && is_best) share(path_, best_checkpoint(path_));
  if (rule_.last == 0) return;
  const std::string name = checkpoint_of_step(path_, next_step);
  share(path_, name);
  if (kept_.empty() || kept_.back() != name) kept_.push_back(name);
  for (; int64_t(kept_.size()) > rule_.last; kept_.pop_front()) {
    std::error_code ignored;
    fs::remove(kept_.front(), ignored);
  }
}

}  // namespace hetsynth
