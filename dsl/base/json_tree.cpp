#include "dsl/base/json_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "dsl/base/suggest.h"

namespace hetsynth {
namespace {

/// Where the parser has read to.
struct Cursor {
  int line = 1;
  int column = 0;
  char last = 0;
};

/// Characters on their way to the parser, counted as they go.
struct CountingIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  Cursor* cursor;
  reference operator*() const { return *at; }
  CountingIterator& operator++() {
    cursor->last = *at++;
    if (cursor->last == '\n')
      ++cursor->line, cursor->column = 0;
    else
      ++cursor->column;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const CountingIterator& other) const { return at == other.at; }
};

/// Receives the parser's events and builds the tree. The parser itself keeps its state on the heap, so depth costs no
/// stack; the tree's own depth is bounded here.
class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  TreeBuilder(const std::string& file, const std::string& what, const JsonLimits& limits, const Cursor& cursor)
      : file_(file), what_(what), limits_(limits), cursor_(cursor) {}
  JsonNode root;

  bool null() override { return add(JsonNode::Kind::null), true; }
  bool boolean(bool value) override { return add(JsonNode::Kind::boolean).boolean = value, true; }
  bool number_integer(int64_t value) override { return add(JsonNode::Kind::integer).integer = value, true; }
  bool number_unsigned(uint64_t value) override {
    if (value > uint64_t(std::numeric_limits<int64_t>::max())) return number_float(double(value), "");
    return number_integer(int64_t(value));
  }
  bool number_float(double value, const std::string&) override { return add(JsonNode::Kind::real).real = value, true; }
  bool string(std::string& value) override { return add(JsonNode::Kind::string).string = std::move(value), true; }
  bool binary(nlohmann::json::binary_t&) override { return false; }
  bool start_object(size_t) override { return open(JsonNode::Kind::object); }
  bool start_array(size_t) override { return open(JsonNode::Kind::array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    if (!keys_.back().insert(name).second) fail(fmt::format("the member {} stands twice", quote(name)), cursor_.column);
    key_ = std::move(name);
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 3, column 5: syntax error ...": the place is said already.
    std::string text = error.what();
    text.erase(0, text.find("] ") + 2);
    if (text.starts_with("parse error")) text.erase(0, text.find(": ") + 2);
    fail("not valid JSON: " + shortened(std::move(text)), cursor_.column);
  }

 private:
  [[noreturn]] void fail(std::string message, int column) const {
    throw UserError(Diagnostic{{file_, cursor_.line, column}, what_, std::move(message), "", "", "", {}});
  }

  /// The parser quotes the last token, which may be most of the file, and its raw bytes.
  static std::string shortened(std::string text) {
    constexpr size_t longest = 160;
    if (text.size() > longest) text = text.substr(0, longest) + "...";
    for (char& c : text)
      if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) c = '?';
    return text;
  }

  JsonNode& add(JsonNode::Kind kind) {
    if (++values_ > limits_.values) fail(fmt::format("more than {} values", limits_.values), 0);
    JsonNode& node = open_.empty() ? root : open_.back()->children.emplace_back();
    node.kind = kind;
    // A number ends only at the character behind it, which may be a line's end.
    const bool number = kind == JsonNode::Kind::integer || kind == JsonNode::Kind::real;
    node.line = cursor_.line - (number && cursor_.last == '\n' ? 1 : 0);
    node.key = std::move(key_);
    key_.clear();
    return node;
  }
  bool open(JsonNode::Kind kind) {
    if (int(open_.size()) >= limits_.depth)
      fail(fmt::format("nested deeper than {} levels", limits_.depth), cursor_.column);
    // A parent's children do not move while one of them is open: the next is added after it closes.
    open_.push_back(&add(kind));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  const std::string& file_;
  const std::string& what_;
  const JsonLimits& limits_;
  const Cursor& cursor_;
  int64_t values_ = 0;
  std::string key_;
  std::vector<JsonNode*> open_;
  std::vector<std::set<std::string>> keys_;
};

std::string_view type_name(JsonNode::Kind kind) {
  switch (kind) {
    case JsonNode::Kind::null:
      return "null";
    case JsonNode::Kind::boolean:
      return "true or false";
    case JsonNode::Kind::integer:
      return "an integer";
    case JsonNode::Kind::real:
      return "a number";
    case JsonNode::Kind::string:
      return "a string";
    case JsonNode::Kind::array:
      return "an array";
    case JsonNode::Kind::object:
      return "an object";
  }
  return "?";
}

}  // namespace

JsonNode parse_json(std::string_view text, const std::string& file, const std::string& what, const JsonLimits& limits) {
  if (int64_t(text.size()) > limits.bytes)
    throw UserError(
        Diagnostic{{file}, what, fmt::format("the file is longer than {} bytes", limits.bytes), "", "", "", {}});
  // The parser takes a NUL for the end of the text.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos)
    throw UserError(Diagnostic{{file, 1 + int(std::ranges::count(text.substr(0, nul), '\n'))},
                               what,
                               fmt::format("the file holds a NUL byte, at byte {}", nul),
                               "JSON",
                               "",
                               "",
                               {}});
  Cursor cursor;
  TreeBuilder builder(file, what, limits, cursor);
  const CountingIterator begin{text.data(), &cursor}, end{text.data() + text.size(), &cursor};
  nlohmann::json::sax_parse(begin, end, &builder);
  return std::move(builder.root);
}

void JsonReader::fail(std::string message, std::string expected, std::string found, std::string mend) const {
  throw UserError(Diagnostic{
      {*file_, node_->line}, path_, std::move(message), std::move(expected), std::move(found), std::move(mend), {}});
}

void JsonReader::wrong_type(std::string expected) const {
  fail("wrong type", std::move(expected), std::string(type_name(node_->kind)));
}

const JsonNode* JsonReader::find(std::string_view key) const {
  if (node_->kind != JsonNode::Kind::object) wrong_type("an object");
  for (const JsonNode& child : node_->children)
    if (child.key == key) return &child;
  return nullptr;
}

void JsonReader::check_members(const std::vector<std::string>& required,
                               const std::vector<std::string>& optional) const {
  for (const std::string& key : required)
    if (!has(key)) fail(fmt::format("the member {} is missing", quote(key)));
  std::vector<std::string> known = required;
  known.insert(known.end(), optional.begin(), optional.end());
  for (const JsonReader& child : members())
    if (std::find(known.begin(), known.end(), child.key()) == known.end())
      child.fail(fmt::format("unknown member {}", quote(child.key())), quoted_list(known), "",
                 did_you_mean(child.key(), known));
}

JsonReader JsonReader::member(std::string_view key) const {
  const JsonNode* child = find(key);
  if (!child) fail(fmt::format("the member {} is missing", quote(key)));
  return {*child, *file_, path_.empty() ? std::string(key) : path_ + "." + std::string(key)};
}

std::vector<JsonReader> JsonReader::members() const {
  if (node_->kind != JsonNode::Kind::object) wrong_type("an object");
  std::vector<JsonReader> result;
  for (const JsonNode& child : node_->children)
    result.emplace_back(child, *file_,
                        path_.empty() ? child.key : path_ + "." + (child.key.size() > 60 ? "..." : child.key));
  return result;
}

std::vector<JsonReader> JsonReader::elements() const {
  if (node_->kind != JsonNode::Kind::array) wrong_type("an array");
  std::vector<JsonReader> result;
  result.reserve(node_->children.size());
  for (const JsonNode& child : node_->children)
    result.emplace_back(child, *file_, fmt::format("{}[{}]", path_, result.size()));
  return result;
}

const std::string& JsonReader::string() const {
  if (node_->kind != JsonNode::Kind::string) wrong_type("a string");
  return node_->string;
}

bool JsonReader::boolean() const {
  if (node_->kind != JsonNode::Kind::boolean) wrong_type("true or false");
  return node_->boolean;
}

int64_t JsonReader::integer(int64_t low, int64_t high) const {
  const bool too_long = node_->kind == JsonNode::Kind::real && std::abs(node_->real) > 9e18;
  if (node_->kind != JsonNode::Kind::integer && !too_long) wrong_type("an integer");
  if (too_long || node_->integer < low || node_->integer > high)
    fail("the number is out of range", fmt::format("{} to {}", low, high),
         too_long ? fmt::format("{}", node_->real) : fmt::format("{}", node_->integer));
  return node_->integer;
}

double JsonReader::number(double low, double high) const {
  if (node_->kind != JsonNode::Kind::integer && node_->kind != JsonNode::Kind::real) wrong_type("a number");
  const double value = node_->kind == JsonNode::Kind::integer ? double(node_->integer) : node_->real;
  if (!(value >= low && value <= high))
    fail("the number is out of range", fmt::format("{} to {}", low, high), fmt::format("{}", value));
  return value;
}

std::string json_quoted(std::string_view text) {
  return nlohmann::json(std::string(text)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace hetsynth
