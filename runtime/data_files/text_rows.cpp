#include "runtime/data_files/text_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hetsynth {

TextRows::TextRows(DataFile file, const RowLimits& limits) : file_(std::move(file)), limits_(limits) {
  find_end();
  if (end_ <= limits_.resident_bytes) {
    resident_.resize(static_cast<size_t>(end_));
    file_.read(0, std::as_writable_bytes(std::span(resident_)));
  }
  index();
}

std::string_view TextRows::row(int64_t row, std::string& buffer) const {
  const int64_t mark = row / limits_.rows_per_mark;
  const int64_t begin = marks_[static_cast<size_t>(mark)], end = marks_[static_cast<size_t>(mark) + 1];
  std::string_view text = part(begin, end, buffer);
  for (int64_t skip = row % limits_.rows_per_mark; skip > 0; --skip) {
    const size_t line = text.find('\n');
    if (line == std::string_view::npos)
      throw file_.error("the file was changed while it was used", "", "", "leave the data files alone");
    text.remove_prefix(line + 1);
  }
  text = text.substr(0, text.find('\n'));
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

std::string_view TextRows::part(int64_t begin, int64_t end, std::string& buffer) const {
  const auto size = static_cast<size_t>(end - begin);
  if (!resident_.empty()) return std::string_view(resident_).substr(static_cast<size_t>(begin), size);
  buffer.resize(size);
  file_.read(begin, std::as_writable_bytes(std::span(buffer)));
  return buffer;
}

void TextRows::find_end() {
  constexpr int64_t block = 4096;
  std::string buffer;
  for (end_ = file_.bytes(); end_ > 0;) {
    const int64_t begin = std::max<int64_t>(0, end_ - block);
    const std::string_view text = part(begin, end_, buffer);
    const size_t last = text.find_last_not_of("\r\n");
    if (last != std::string_view::npos) {
      end_ = begin + static_cast<int64_t>(last) + 1;
      return;
    }
    end_ = begin;
  }
}

void TextRows::index() {
  constexpr int64_t block = int64_t{1} << 20;
  std::string buffer;
  int64_t line_start = 0;
  for (int64_t at = 0; at < end_; at += block) {
    const std::string_view text = part(at, std::min(at + block, end_), buffer);
    for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n', end + 1)) {
      add_row(line_start);
      line_start = at + static_cast<int64_t>(end) + 1;
    }
  }
  if (line_start < end_) add_row(line_start);
  check_mark(end_);
  marks_.push_back(end_);
}

void TextRows::add_row(int64_t start) {
  if (rows_ % limits_.rows_per_mark == 0) {
    check_mark(start);
    marks_.push_back(start);
  }
  ++rows_;
}

void TextRows::check_mark(int64_t end) const {
  if (marks_.empty() || end - marks_.back() <= limits_.longest_mark) return;
  const int64_t rows = limits_.rows_per_mark, before = (rows_ - 1) / rows * rows;
  throw file_.error(
      "the lines are too long for samples of this format",
      fmt::format("at most {} bytes in {}", limits_.longest_mark, rows == 1 ? "a line" : fmt::format("{} lines", rows)),
      fmt::format("{} bytes after line {}", end - marks_.back(), before));
}

}  // namespace hetsynth
