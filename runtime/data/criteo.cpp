// Rows of the Criteo display advertising challenge (https://ailab.criteo.com/ressources): tab-separated, a label, the
// numeric columns, then the categorical ones as hexadecimal words; a missing value is an empty field. Any number of
// columns of either sort will do, if the model asks for as many.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <utility>

#include "dsl/base/data_file.h"
#include "runtime/data/array_dataset.h"
#include "runtime/data/formats.h"
#include "runtime/data/sample_order.h"
#include "runtime/rank/arena.h"

namespace hetsynth {
namespace {

using Kind = DataSource::Kind;

constexpr int64_t rows_per_mark = 16;
constexpr int64_t longest_mark = int64_t{1} << 20;  ///< bytes of so many rows
constexpr int64_t resident_bytes = int64_t{256} << 20;

/// Lines of a text file by number: kept in memory if the file is small, else read as needed.
class Rows {
 public:
  explicit Rows(DataFile file) : file_(std::move(file)) {
    if (file_.bytes() <= resident_bytes) {
      resident_.resize(static_cast<size_t>(file_.bytes()));
      file_.read(0, std::as_writable_bytes(std::span(resident_)));
    }
    index();
  }

  int64_t count() const { return rows_; }
  const DataFile& file() const { return file_; }

  /// Row `row` from 0 on, without its end of line. `buffer` holds the text if it has to be read.
  std::string_view row(int64_t row, std::string& buffer) const {
    const int64_t mark = row / rows_per_mark;
    const int64_t begin = marks_[static_cast<size_t>(mark)], end = marks_[static_cast<size_t>(mark) + 1];
    std::string_view text = part(begin, end, buffer);
    for (int64_t skip = row % rows_per_mark; skip > 0; --skip) {
      const size_t line = text.find('\n');
      if (line == std::string_view::npos)
        throw file_.error("the file was changed while it was used", "", "", "leave the data files alone");
      text.remove_prefix(line + 1);
    }
    text = text.substr(0, text.find('\n'));
    if (text.ends_with('\r')) text.remove_suffix(1);
    return text;
  }

 private:
  std::string_view part(int64_t begin, int64_t end, std::string& buffer) const {
    const auto size = static_cast<size_t>(end - begin);
    if (!resident_.empty()) return std::string_view(resident_).substr(static_cast<size_t>(begin), size);
    buffer.resize(size);
    file_.read(begin, std::as_writable_bytes(std::span(buffer)));
    return buffer;
  }

  /// Notes where every sixteenth row begins: half a byte per row.
  void index() {
    constexpr int64_t block = int64_t{1} << 20;
    std::string buffer;
    int64_t line_start = 0;
    for (int64_t at = 0; at < file_.bytes(); at += block) {
      const std::string_view text = part(at, std::min(at + block, file_.bytes()), buffer);
      for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n', end + 1)) {
        add_row(line_start);
        line_start = at + static_cast<int64_t>(end) + 1;
      }
    }
    if (line_start < file_.bytes()) add_row(line_start);  // the last line may lack its end
    check_mark(file_.bytes());
    marks_.push_back(file_.bytes());
  }

  void add_row(int64_t start) {
    if (rows_ % rows_per_mark == 0) {
      check_mark(start);
      marks_.push_back(start);
    }
    ++rows_;
  }

  void check_mark(int64_t end) const {
    if (marks_.empty() || end - marks_.back() <= longest_mark) return;
    throw file_.error(
        "the lines are too long for rows of a table",
        fmt::format("at most {} bytes in {} lines", longest_mark, rows_per_mark),
        fmt::format("{} bytes after line {}", end - marks_.back(), rows_ / rows_per_mark * rows_per_mark));
  }

  DataFile file_;
  std::string resident_;
  std::vector<int64_t> marks_;  ///< byte where row 16 i begins, and the end of the file
  int64_t rows_ = 0;
};

class CriteoRows : public Dataset {
 public:
  explicit CriteoRows(const DataPath& path) : rows_(DataFile(path.path)) {
    for (const Node* input : path.inputs) {
      if (input->data.kind == Kind::numeric) numeric_ += input->data.length;
      if (input->data.kind == Kind::category) ++categories_;
    }
    if (rows_.count() == 0) throw rows_.file().error("the file is empty");
    std::string buffer;
    fields_of(rows_.row(0, buffer), 0);
  }

  int64_t samples(const Node&) const override { return rows_.count(); }

  void read(const Node& input, SampleId sample, int64_t inside, int64_t count,
            std::span<std::byte> out) const override {
    std::string buffer;
    const std::vector<std::string_view> fields = fields_of(rows_.row(sample.index, buffer), sample.index);
    auto* const reals = reinterpret_cast<float*>(out.data());
    for (int64_t i = inside; i < inside + count; ++i) {
      switch (input.data.kind) {
        case Kind::numeric: {
          const double value = number(input, fields, 1 + input.data.column + i, sample.index);
          reals[i - inside] = static_cast<float>(std::log1p(std::max(value, 0.0)));  // as DLRM takes them
          break;
        }
        case Kind::category:
          reinterpret_cast<int32_t*>(out.data())[i - inside] =
              bucket(fields[static_cast<size_t>(1 + numeric_ + input.data.column)], input.data.classes);
          break;
        default: {
          const double value = number(input, fields, 0, sample.index);
          if (input.data.classes == 2 && value != 0 && value != 1)
            throw value_error(input, rows_.file().path(), place(sample.index), sample.index, fmt::format("{}", value));
          reals[i - inside] = static_cast<float>(value);
        }
      }
    }
  }

  std::string description() const override {
    return fmt::format("rows {}, {} numeric and {} categorical columns, {} samples", rows_.file().path(), numeric_,
                       categories_, rows_.count());
  }

 private:
  static std::string place(int64_t row) { return fmt::format("line {}", row + 1); }

  std::vector<std::string_view> fields_of(std::string_view row, int64_t number) const {
    std::vector<std::string_view> out;
    const auto wanted = static_cast<size_t>(1 + numeric_ + categories_);
    for (size_t at = 0; out.size() <= wanted;) {
      const size_t end = row.find('\t', at);
      out.push_back(row.substr(at, end == std::string_view::npos ? end : end - at));
      if (end == std::string_view::npos) break;
      at = end + 1;
    }
    if (out.size() == wanted) return out;
    throw rows_.file().error(
        fmt::format("{} does not have the columns that the model asks for", place(number)),
        fmt::format("{} tab-separated fields: a label, {} numbers and {} categories", wanted, numeric_, categories_),
        out.size() > wanted ? "more" : fmt::format("{} fields", out.size()));
  }

  double number(const Node& input, const std::vector<std::string_view>& fields, int64_t column, int64_t row) const {
    const std::string_view field = fields[static_cast<size_t>(column)];
    if (field.empty()) return 0;  // missing
    double value = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    // Values beyond float32 would become infinite.
    if (error == std::errc() && end == field.data() + field.size() && std::abs(value) < 3e38) return value;
    std::string shown;
    for (const char c : field.substr(0, 32)) shown += c >= ' ' && c <= '~' ? c : '?';
    throw value_error(input, rows_.file().path(), fmt::format("{}, field {}", place(row), column + 1), row,
                      fmt::format("\"{}\"", shown));
  }

  /// Categories are hashed into the buckets the model has; a missing one is a category of its own.
  static int32_t bucket(std::string_view word, int64_t classes) {
    uint64_t hash = 0;
    for (const unsigned char c : word) hash = mix(hash, c);
    return static_cast<int32_t>(hash % static_cast<uint64_t>(std::max<int64_t>(classes, 1)));
  }

  Rows rows_;
  int64_t numeric_ = 0, categories_ = 0;
};

}  // namespace

DataFormat criteo_format() {
  return {"criteo",
          "tab-separated rows of Criteo",
          {Kind::numeric, Kind::category, Kind::response},
          [](const DataPath& path) {
            return !path.folder && path.asks_only({Kind::numeric, Kind::category, Kind::response}) &&
                   std::ranges::find(path.head, '\t') != path.head.end();
          },
          [](const DataPath& path) -> std::unique_ptr<Dataset> { return std::make_unique<CriteoRows>(path); }};
}

}  // namespace hetsynth
