// Lines of JSON (https://jsonlines.org): an object a sample, whose members are named after the inputs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "dsl/base/suggest.h"
#include "runtime/data/array_dataset.h"
#include "runtime/data/formats.h"
#include "runtime/data_files/text_rows.h"

namespace hetsynth {
namespace {

using Kind = DataSource::Kind;
using nlohmann::json;

const std::vector<std::string> jsonl_endings = {".jsonl", ".ndjson"};

RowLimits jsonl_limits(int64_t resident_bytes) {
  return {.rows_per_mark = 1, .longest_mark = int64_t{64} << 20, .resident_bytes = resident_bytes};
}

/// Takes the numbers of one member of a line, lists in lists as the input's shape says; all else is passed over. The
/// parser keeps no stack of calls, so that nesting without end does no harm.
class MemberReader : public nlohmann::json_sax<json> {
 public:
  MemberReader(const Node& input, const DataFile& file, int64_t sample, int64_t inside, int64_t count, std::byte* out)
      : input_(input),
        file_(file),
        sample_(sample),
        inside_(inside),
        count_(count),
        out_(out),
        shape_(input.type.shape.begin() + 1, input.type.shape.end()) {}

  bool null() override { return other("null"); }
  bool boolean(bool value) override { return whole(value ? 1 : 0); }
  bool number_integer(number_integer_t value) override { return whole(value); }
  bool number_unsigned(number_unsigned_t value) override {
    constexpr auto most = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    return whole(static_cast<int64_t>(std::min<uint64_t>(value, most)));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    if (!taking()) return top();
    if (input_.type.dtype == DType::i32) throw number_error(input_, file_.path(), place(), sample_, text);
    return real(value);
  }
  bool string(string_t& text) override { return other(quote(text)); }
  bool binary(binary_t&) override { return other("bytes"); }

  bool start_object(std::size_t) override {
    if (depth_ > 0 && taking()) refuse_value("an object");
    ++depth_;
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    in_member_ = name == data_name(input_);
    if (in_member_ && found_)
      throw file_.error(fmt::format("line {} has {} twice", line(), quote(name)), "every member once", "", "");
    found_ = found_ || in_member_;
    if (keys_.size() < most_keys) keys_.push_back(name);
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    if (taking()) {
      enter_element("a list");
      if (at_.size() == shape_.size() && !(is_one() && at_.empty())) refuse_value("a list");
      at_.push_back(0);
    } else {
      top();
    }
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    if (!taking()) return true;
    const int64_t wanted = at_.size() <= shape_.size() ? shape_[at_.size() - 1] : 1;
    const int64_t length = at_.back();
    at_.pop_back();
    if (length != wanted) refuse_length(wanted, fmt::format("{}", length));
    leave_element();
    return true;
  }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception& error) override {
    std::string what = error.what();
    if (const size_t told = what.find(" - "); told != std::string::npos) what = what.substr(told + 3);
    const bool foreign =  // as UTF-16, or the national code pages of spreadsheets
        what.find("UTF-8") != std::string::npos ||
        std::ranges::any_of(what, [](char c) { return static_cast<unsigned char>(c) > '~'; });
    throw file_.error(fmt::format("line {} is no JSON", line()), "an object, as {\"" + data_name(input_) + "\": ...}",
                      fmt::format("at column {}: {}", at, in_ascii(what.substr(0, 160))),
                      foreign ? "save the file as UTF-8" : "write each object in a line of its own");
  }

  /// After the line: whether all was there.
  void finish() const {
    if (!found_)
      throw file_.error(fmt::format("line {} has no member for input {}", line(), quote(data_name(input_))),
                        quote(data_name(input_)), keys_.empty() ? "an empty object" : quoted_list(keys_),
                        did_you_mean(data_name(input_), keys_));
  }

 private:
  static constexpr size_t most_keys = 64;

  int64_t line() const { return sample_ + 1; }
  bool is_one() const { return element_count(shape_) == 1; }
  /// The value that comes belongs to the member.
  bool taking() const { return depth_ >= 1 && in_member_; }
  /// A line is an object.
  bool top() const {
    if (depth_ == 0)
      throw file_.error(fmt::format("line {} holds no object", line()), "{\"" + data_name(input_) + "\": ...}",
                        "another JSON value", "write an object of named values in every line");
    return true;
  }
  std::string place() const {
    return fmt::format("line {}, {}{}", line(), data_name(input_),
                       at_.empty() ? "" : fmt::format("[{}]", fmt::join(at_, "][")));
  }
  [[noreturn]] void refuse_value(const std::string& found) const {
    throw file_.error(fmt::format("sample {} does not have the shape of input {}", sample_, data_name(input_)),
                      shape_.empty() ? "a number" : fmt::format("numbers in lists of {}", fmt::join(shape_, " x ")),
                      fmt::format("{} at {}", found, place()), "change the model's sizes to those of the data");
  }
  [[noreturn]] void refuse_length(int64_t wanted, const std::string& found) const {
    throw file_.error(
        fmt::format("a list of sample {} does not have the length that input {} asks for", sample_, data_name(input_)),
        fmt::format("{} elements", wanted), fmt::format("{} at {}", found, place()),
        "pad lists that are too short, or change the model's sizes to those of the data");
  }
  /// An element begins in the innermost list, or the member itself.
  void enter_element(const std::string& what) const {
    if (at_.size() > shape_.size() + 1) refuse_value(what);
    if (at_.empty()) return;
    const int64_t wanted = at_.size() <= shape_.size() ? shape_[at_.size() - 1] : 1;
    if (at_.back() >= wanted) refuse_length(wanted, "more");
  }
  void leave_element() {
    if (!at_.empty()) ++at_.back();
  }
  /// Where the number belongs in the part that is asked for; null: nowhere.
  std::byte* next_place() {
    enter_element("a number");
    if (at_.size() != shape_.size() && !is_one()) refuse_value("a number");
    const int64_t index = taken_++ - inside_;
    return index >= 0 && index < count_ ? out_ + index * 4 : nullptr;
  }
  bool whole(int64_t value) {
    if (!taking()) return top();
    if (input_.type.dtype != DType::i32) return real(static_cast<double>(value));
    int32_t stored = 0;
    std::byte* const to = next_place();
    store_whole(
        input_, file_.path(), [&] { return place(); }, sample_, value, &stored);
    if (to) *reinterpret_cast<int32_t*>(to) = stored;
    leave_element();
    return true;
  }
  bool real(double value) {
    std::byte* const to = next_place();
    const auto stored = static_cast<float>(value);
    if (!takes_real(input_.data, stored))
      throw value_error(input_, file_.path(), place(), sample_, fmt::format("{}", value));
    if (to) *reinterpret_cast<float*>(to) = stored;
    leave_element();
    return true;
  }
  bool other(const std::string& what) {
    if (!taking()) return top();
    throw number_error(input_, file_.path(), place(), sample_, what);
  }

  const Node& input_;
  const DataFile& file_;
  const int64_t sample_, inside_, count_;
  std::byte* const out_;
  const std::vector<int64_t> shape_;  ///< of a sample
  int64_t depth_ = 0, taken_ = 0;
  bool in_member_ = false, found_ = false;
  std::vector<int64_t> at_;  ///< index of the element that comes, by list
  std::vector<std::string> keys_;
};

class JsonRows : public Dataset {
 public:
  explicit JsonRows(const DataPath& path) : rows_(DataFile(path.path), jsonl_limits(path.resident_bytes())) {
    if (rows_.count() == 0 && path.may_be_empty()) return;
    if (rows_.count() == 0) throw rows_.file().error("the file is empty", "a JSON object in every line");
    for (const Node* input : path.inputs) {  // a model that the data do not fit is told of it at once
      const int64_t elements = elements_of_sample(*input);
      std::vector<std::byte> first(static_cast<size_t>(elements) * 4);
      read(*input, {0, 0}, 0, elements, first);
    }
  }

  int64_t samples(const Node&) const override { return rows_.count(); }

  void read(const Node& input, SampleId sample, int64_t inside, int64_t count,
            std::span<std::byte> out) const override {
    std::string buffer;
    const std::string_view row = rows_.row(sample.index, buffer);
    if (row.empty())
      throw rows_.file().error(fmt::format("line {} is empty", sample.index + 1), "a JSON object in every line", "",
                               "leave empty lines out but for those at the end");
    if (const size_t nul = row.find('\0'); nul != std::string_view::npos)  // the parser's end of the text
      throw rows_.file().error(fmt::format("line {} holds a NUL byte", sample.index + 1), "a JSON object",
                               fmt::format("NUL at byte {} of the line", nul), "save the file as UTF-8");
    MemberReader reader(input, rows_.file(), sample.index, inside, count, out.data());
    json::sax_parse(row, &reader);
    reader.finish();
  }

  std::string description() const override {
    return fmt::format("jsonl {}, {} samples", rows_.file().path(), rows_.count());
  }

 private:
  TextRows rows_;
};

}  // namespace

DataFormat jsonl_format() {
  return {"jsonl",
          "lines of JSON objects",
          {Kind::named},
          [](const DataPath& path) {
            return path.asks_only({Kind::named}) &&
                   (path.has_file(jsonl_endings) ||
                    (!path.head.empty() && (path.head.front() == '{' || path.head.front() == '[')));
          },
          [](const DataPath& path) -> OpenedData { return with_row_cache(std::make_unique<JsonRows>(path), path); },
          [](const DataPath& folder) { return folder.series(jsonl_endings); }};
}

}  // namespace hetsynth
