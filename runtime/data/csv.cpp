// Tables with a header (RFC 4180): columns by name, a sample in every line.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

#include "dsl/base/suggest.h"
#include "runtime/data/array_dataset.h"
#include "runtime/data/formats.h"
#include "runtime/data_files/text_rows.h"
#include "runtime/unicode/utf8.h"

namespace hetsynth {
namespace {

using Kind = DataSource::Kind;

const std::vector<std::string> csv_endings = {".csv", ".tsv"};

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

/// The fields of a line, without quotes and blanks around them; nothing if a quoted one has no end.
std::optional<std::vector<std::string_view>> split(std::string_view row, char separator) {
  std::vector<std::string_view> out;
  for (size_t at = 0;;) {
    const size_t begin = std::min(row.find_first_not_of(' ', at), row.size());
    size_t end = 0;
    if (begin < row.size() && row[begin] == '"') {
      size_t close = row.find('"', begin + 1);
      while (close != std::string_view::npos && close + 1 < row.size() && row[close + 1] == '"')
        close = row.find('"', close + 2);  // a doubled one is a quote in the text
      if (close == std::string_view::npos) return {};
      out.push_back(trimmed(row.substr(begin + 1, close - begin - 1)));
      end = row.find(separator, close);
    } else {
      end = row.find(separator, at);
      out.push_back(trimmed(row.substr(at, end == std::string_view::npos ? end : end - at)));
    }
    if (end == std::string_view::npos) return out;
    at = end + 1;
  }
}

class CsvRows : public Dataset {
 public:
  explicit CsvRows(const DataPath& path) : rows_(DataFile(path.path), {.resident_bytes = path.resident_bytes()}) {
    const DataFile& file = rows_.file();
    if (rows_.count() == 0)
      throw file.error("the file is empty", "a header with the names of the columns, and a line a sample");
    std::string buffer;
    const std::string_view line = rows_.row(0, buffer);
    std::string_view header = line;
    constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
    if (header.starts_with(byte_order_mark)) header.remove_prefix(byte_order_mark.size());
    const size_t odd = std::min(unicode::first_invalid(header), header.find('\0'));
    if (odd != std::string_view::npos)
      throw file.error(
          "the header is no text in UTF-8", "names of columns, separated by commas",
          fmt::format("{:02x} at byte {}", static_cast<unsigned char>(header[odd]), header.data() + odd - line.data()),
          "save the table as \"CSV UTF-8\"");
    // Programs write commas, semicolons or tabs, by country and custom.
    for (const char candidate : {',', ';', '\t'})
      if (std::ranges::count(header, candidate) > std::ranges::count(header, separator_)) separator_ = candidate;
    const auto names = split(header, separator_);
    if (!names) throw file.error("a quoted name in the header has no end", "", "a \" without another in line 1");
    names_.assign(names->begin(), names->end());
    for (const Node* input : path.inputs)
      if (!columns_.contains(data_name(*input))) columns_[data_name(*input)] = columns_of(*input);
    if (rows_.count() == 1 && path.may_be_empty()) return;
    if (rows_.count() == 1)
      throw file.error("the file holds no samples", "a line for each behind the header", "the header alone");
    fields_of(0, &buffer);
  }

  int64_t samples(const Node&) const override { return rows_.count() - 1; }

  void read(const Node& input, SampleId sample, int64_t inside, int64_t count,
            std::span<std::byte> out) const override {
    std::string buffer;
    const std::vector<std::string_view> fields = fields_of(sample.index, &buffer);
    const std::vector<size_t>& columns = columns_.at(data_name(input));
    for (int64_t i = 0; i < count; ++i) {
      const size_t column = columns[static_cast<size_t>(inside + i)];
      const std::string_view field = fields[column];
      const auto place = [&] { return fmt::format("line {}, column {}", sample.index + 2, quote(names_[column])); };
      if (input.type.dtype == DType::i32) {
        const std::optional<int64_t> value = number<int64_t>(field);
        if (!value) throw number_error(input, rows_.file().path(), place(), sample.index, shown(field));
        store_whole(input, rows_.file().path(), place, sample.index, *value,
                    reinterpret_cast<int32_t*>(out.data()) + i);
      } else {
        const std::optional<double> value = number<double>(field);
        if (!value) throw number_error(input, rows_.file().path(), place(), sample.index, shown(field));
        if (!takes_real(input.data, static_cast<float>(*value)))
          throw value_error(input, rows_.file().path(), place(), sample.index, shown(field));
        reinterpret_cast<float*>(out.data())[i] = static_cast<float>(*value);
      }
    }
  }

  std::string description() const override {
    return fmt::format("csv {}, {} columns, {} samples", rows_.file().path(), names_.size(), rows_.count() - 1);
  }
  std::vector<DataTrait> traits() const override { return {{"columns", quoted_list(names_, names_.size())}}; }

 private:
  static std::string shown(std::string_view field) { return field.empty() ? "an empty field" : quote(field); }

  template <class T>
  static std::optional<T> number(std::string_view field) {
    for (const char* yes : {"true", "True", "TRUE"})
      if (field == yes) return T{1};
    for (const char* no : {"false", "False", "FALSE"})
      if (field == no) return T{0};
    T value{};
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (error != std::errc() || end != field.data() + field.size()) return {};
    return value;
  }

  /// Position of a column; nothing if there is none. Throws if there are two.
  std::optional<size_t> find(const std::string& name) const {
    const auto first = std::ranges::find(names_, name);
    if (first == names_.end()) return {};
    if (std::find(first + 1, names_.end(), name) != names_.end())
      throw rows_.file().error("two columns have the name " + quote(name), "a name of its own for each",
                               "it twice in line 1");
    return static_cast<size_t>(first - names_.begin());
  }

  /// The columns of an input's elements: its name, or the name with their numbers.
  std::vector<size_t> columns_of(const Node& input) const {
    const std::string& name = data_name(input);
    const int64_t elements = elements_of_sample(input);
    if (elements == 1)
      if (const auto column = find(name)) return {*column};
    const char* const link = find(name + "_0") && !find(name + ".0") ? "_" : ".";
    const auto numbered = [&](int64_t i) { return fmt::format("{}{}{}", name, link, i); };
    std::vector<size_t> out;
    for (int64_t i = 0; i < elements; ++i) {
      const auto column = find(numbered(i));
      if (!column) {
        const std::string wanted = elements == 1 ? name : numbered(i);
        throw rows_.file().error(
            fmt::format("the table has no column {} for input {}", quote(wanted), quote(name)),
            elements == 1
                ? quote(name)
                : fmt::format("{} columns, from {} to {}", elements, quote(numbered(0)), quote(numbered(elements - 1))),
            quoted_list(names_) + " in line 1",
            elements == 1 ? did_you_mean(wanted, names_) : "the header in line 1 names the columns");
      }
      out.push_back(*column);
    }
    if (find(numbered(elements)))
      throw rows_.file().error(
          fmt::format("the table has more columns for input {} than a sample has numbers", quote(name)),
          fmt::format("{} columns", elements), fmt::format("{} in line 1, too", quote(numbered(elements))),
          "change the model's sizes to those of the data");
    return out;
  }

  std::vector<std::string_view> fields_of(int64_t sample, std::string* buffer) const {
    auto fields = split(rows_.row(sample + 1, *buffer), separator_);
    if (!fields)
      throw rows_.file().error(fmt::format("a quoted field of line {} has no end", sample + 2), "a sample in one line",
                               "a \" without another", "leave out texts of several lines, which no input reads");
    if (fields->size() != names_.size())
      throw rows_.file().error(fmt::format("line {} does not have the columns of the header", sample + 2),
                               fmt::format("{} fields, separated by {}", names_.size(),
                                           quote(separator_ == '\t' ? "tab" : std::string(1, separator_))),
                               fmt::format("{}", fields->size()));
    return std::move(*fields);
  }

  TextRows rows_;
  char separator_ = ',';
  std::vector<std::string> names_;
  std::map<std::string, std::vector<size_t>> columns_;  ///< by name of the input, one for each element of a sample
};

}  // namespace

DataFormat csv_format() {
  return {"csv",
          "a table with named columns",
          {Kind::named},
          [](const DataPath& path) { return path.asks_only({Kind::named}) && path.has_file(csv_endings); },
          [](const DataPath& path) -> OpenedData { return with_row_cache(std::make_unique<CsvRows>(path), path); },
          [](const DataPath& folder) { return folder.series(csv_endings); }};
}

}  // namespace hetsynth
