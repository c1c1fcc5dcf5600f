#include "dsl/cluster/toml_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dsl/base/suggest.h"
#include "dsl/base/toml_text.h"
#include "dsl/cluster/cluster.h"

namespace hetsynth {
namespace {

std::string_view type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return node.is_array_of_tables() ? "an array of tables" : "an array";
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::boolean:
      return "true or false";
    default:
      return "a date or time";
  }
}

std::string join(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : path + "." + std::string(key);
}

/// "[[host.device]]" for "host[3].device".
std::string header_of(const std::string& path) {
  std::string header = "[[";
  bool index = false;
  for (const char c : path) {
    if (c == '[') index = true;
    if (!index) header += c;
    if (c == ']') index = false;
  }
  return header + "]]";
}

}  // namespace

TableReader::TableReader(const toml::table& table, const std::string& file, std::string tag,
                         const std::vector<std::string>& keys)
    : table_(table), file_(file), tag_(std::move(tag)) {
  for (const auto& [key, node] : in_order(table_)) {
    if (std::find(keys.begin(), keys.end(), key.str()) != keys.end()) continue;
    fail({file_, int(key.source().begin.line), int(key.source().begin.column)},
         fmt::format("unknown key {}", quote(key.str())), quoted_list(keys), "", did_you_mean(key.str(), keys));
  }
}

void TableReader::fail(const SourceLocation& where, std::string message, std::string expected, std::string found,
                       std::string mend) const {
  throw UserError(Diagnostic{where,
                             tag_.empty() ? "cluster" : tag_,
                             std::move(message),
                             std::move(expected),
                             std::move(found),
                             std::move(mend),
                             {}});
}

SourceLocation TableReader::where(const toml::node& node) const {
  return {file_, int(node.source().begin.line), int(node.source().begin.column)};
}

SourceLocation TableReader::where(std::string_view key) const {
  const toml::node* node = table_.get(key);
  return node ? where(*node) : where();
}

void TableReader::wrong_type(std::string_view key, const toml::node& node, std::string expected) const {
  fail(where(node), fmt::format("{} has the wrong type", key), std::move(expected), std::string(type_name(node)), "");
}

double TableReader::plain_number(std::string_view key, const toml::node& node, const std::string& expected) const {
  double value = 0;
  if (const auto* integer = node.as_integer())
    value = double(**integer);
  else if (const auto* real = node.as_floating_point())
    value = **real;
  else
    wrong_type(key, node, expected);
  if (!std::isfinite(value))
    fail(where(node), fmt::format("{} is not a finite number", key), expected, fmt::format("{}", value), "");
  return value;
}

std::string TableReader::text(std::string_view key, const std::string& otherwise) const {
  const toml::node* node = table_.get(key);
  if (!node) return otherwise;
  if (!node->is_string()) wrong_type(key, *node, "a string");
  const std::string& value = **node->as_string();
  const bool printable =
      std::none_of(value.begin(), value.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (value.empty() || value.size() > 200 || !printable)
    fail(where(*node), fmt::format("{} is not a usable text", key), "1 to 200 printable characters", quote(value), "");
  return value;
}

std::optional<std::vector<std::string>> TableReader::texts(std::string_view key) const {
  const toml::node* node = table_.get(key);
  if (!node) return std::nullopt;
  const toml::array* array = node->as_array();
  if (!array) wrong_type(key, *node, "an array of strings");
  std::vector<std::string> out;
  for (const toml::node& element : *array) {
    if (!element.is_string()) wrong_type(key, element, "an array of strings");
    out.push_back(**element.as_string());
  }
  return out;
}

int TableReader::count(std::string_view key) const {
  const toml::node* node = table_.get(key);
  if (!node) return 1;
  if (!node->is_integer()) wrong_type(key, *node, "an integer");
  const int64_t value = **node->as_integer();
  if (value < 1 || value > max_cluster_devices)
    fail(where(*node), fmt::format("{} is out of range", key), fmt::format("1 to {}", max_cluster_devices),
         fmt::format("{}", value), "");
  return int(value);
}

double TableReader::number(std::string_view key, ValueLimits limits, double otherwise) const {
  const toml::node* node = table_.get(key);
  if (!node) return otherwise;
  const double value = plain_number(key, *node, "a number");
  if (!(value >= limits.low && value <= limits.high))
    fail(where(*node), fmt::format("{} is out of range", key), fmt::format("{} to {}", limits.low, limits.high),
         fmt::format("{}", value), "");
  return value;
}

std::optional<double> TableReader::quantity(std::string_view key, Dimension dimension, ValueLimits limits) const {
  const toml::node* node = table_.get(key);
  if (!node) return std::nullopt;
  const std::string expected =
      fmt::format("a quantity such as \"{}\", or a number of {}", example(dimension), base_unit(dimension));
  double value = 0;
  if (const auto* text = node->as_string()) {
    ParsedQuantity parsed = parse_quantity(**text, dimension);
    if (!parsed.ok)
      fail(where(*node), fmt::format("{}: {}", key, parsed.problem), expected, quote(**text), std::move(parsed.mend));
    value = parsed.value;
  } else {
    value = plain_number(key, *node, expected);
  }
  if (value >= limits.low && value <= limits.high) return value;
  const std::string range =
      fmt::format("{} to {}", quantity_text(limits.low, dimension), quantity_text(limits.high, dimension));
  const std::string mend = node->is_string() ? "" : fmt::format("write the unit: \"{}\"", example(dimension));
  fail(where(*node),
       fmt::format("{} is {}", key,
                   value < 0    ? "negative"
                   : value == 0 ? "zero"
                                : "out of range"),
       range, quantity_text(value, dimension), mend);
}

std::optional<TableReader> TableReader::table(std::string_view key, const std::vector<std::string>& keys) const {
  const toml::node* node = table_.get(key);
  if (!node) return std::nullopt;
  if (!node->is_table()) wrong_type(key, *node, "a table");
  return TableReader(*node->as_table(), file_, join(tag_, key), keys);
}

std::vector<TableReader> TableReader::tables(std::string_view key, const std::vector<std::string>& keys) const {
  const toml::node* node = table_.get(key);
  std::vector<TableReader> result;
  if (!node) return result;
  const std::string path = join(tag_, key);
  const std::string expected = fmt::format("tables, each begun by {}", header_of(path));
  if (!node->is_array()) wrong_type(key, *node, expected);
  for (const toml::node& element : *node->as_array()) {
    if (!element.is_table()) wrong_type(key, element, expected);
    result.emplace_back(*element.as_table(), file_, fmt::format("{}[{}]", path, result.size()), keys);
  }
  return result;
}

}  // namespace hetsynth
