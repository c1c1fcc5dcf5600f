// Rows of the Criteo display advertising challenge (https://ailab.criteo.com/ressources): tab-separated, a label, the
// numeric columns, then the categorical ones as hexadecimal words; a missing value is an empty field. Any number of
// columns of either sort will do, if the model asks for as many.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "dsl/base/data_file.h"
#include "dsl/base/suggest.h"
#include "runtime/data/array_dataset.h"
#include "runtime/data/formats.h"
#include "runtime/data/sample_order.h"
#include "runtime/data_files/text_rows.h"

namespace hetsynth {
namespace {

using Kind = DataSource::Kind;

class CriteoRows : public Dataset {
 public:
  explicit CriteoRows(const DataPath& path) : rows_(DataFile(path.path), {.resident_bytes = path.resident_bytes()}) {
    for (const Node* input : path.inputs) {
      if (input->data.kind == Kind::numeric) numeric_ += input->data.length;
      if (input->data.kind == Kind::category) ++categories_;
    }
    if (rows_.count() == 0 && path.may_be_empty()) return;
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
    throw value_error(input, rows_.file().path(), fmt::format("{}, field {}", place(row), column + 1), row,
                      fmt::format("\"{}\"", in_ascii(field.substr(0, 32))));
  }

  /// Categories are hashed into the buckets the model has; a missing one is a category of its own.
  static int32_t bucket(std::string_view word, int64_t classes) {
    uint64_t hash = 0;
    for (const unsigned char c : word) hash = mix(hash, c);
    return static_cast<int32_t>(hash % static_cast<uint64_t>(std::max<int64_t>(classes, 1)));
  }

  TextRows rows_;
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
          [](const DataPath& path) -> OpenedData { return with_row_cache(std::make_unique<CriteoRows>(path), path); },
          [](const DataPath& folder) { return folder.series({""}); }};
}

}  // namespace hetsynth
