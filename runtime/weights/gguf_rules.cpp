#include "runtime/weights/gguf_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "dsl/base/error.h"
#include "dsl/base/suggest.h"
#include "runtime/weights/rules_text.h"

namespace hetsynth {
namespace {

constexpr const char* what_a_rule_is =
    "a value, or one of { count = PATTERN }, { extent = TENSOR, dim = D } and { given = MEANING, type = TYPE }";

/// A number, a truth or a text; nothing for others.
std::optional<GgufValue> plain_value(const toml::node& node) {
  if (const auto* number = node.as_integer())
    if (number->get() >= 0 && number->get() <= std::numeric_limits<uint32_t>::max())
      return GgufValue(uint32_t(number->get()));
  if (const auto* number = node.as_floating_point()) return GgufValue(float(number->get()));
  if (const auto* truth = node.as_boolean()) return GgufValue(truth->get());
  if (const auto* text = node.as_string()) return GgufValue(text->get());
  return std::nullopt;
}

/// A value of the type that a rule names; only its type counts.
GgufValue value_of_type(const std::string& file, const toml::node& node) {
  const std::string type = node.value<std::string>().value_or("");
  if (type == "integer") return uint32_t{0};
  if (type == "number") return 0.0F;
  if (type == "text") return std::string();
  refuse_rule("gguf", file, line_of(node), "the type of a given value is none", "\"integer\", \"number\" or \"text\"",
              type);
}

GgufRule gguf_rule_of(const std::string& file, const std::string& key, const toml::node& node) {
  GgufRule out;
  out.key = key;
  out.line = line_of(node);
  if (const auto value = plain_value(node)) {
    out.value = *value;
    return out;
  }
  const toml::table* table = node.as_table();
  if (!table) refuse_rule("gguf", file, out.line, fmt::format("{} has a value of the wrong kind", key), what_a_rule_is);
  const auto text = [&](const char* name) { return (*table)[name].value<std::string>().value_or(""); };
  std::set<std::string> keys;
  for (const auto& [name, value] : *table) keys.emplace(name.str());
  if (keys == std::set<std::string>{"count"} && !text("count").empty()) {
    out.source = GgufRule::Source::count, out.name = text("count");
  } else if (keys == std::set<std::string>{"dim", "extent"} && !text("extent").empty() &&
             table->get("dim")->is_integer()) {
    out.source = GgufRule::Source::extent, out.name = text("extent");
    out.dim = *table->get("dim")->value<int64_t>();
  } else if (keys == std::set<std::string>{"given", "type"} && !text("given").empty()) {
    out.source = GgufRule::Source::given, out.name = text("given");
    out.value = value_of_type(file, *table->get("type"));
  } else {
    refuse_rule("gguf", file, out.line, fmt::format("{} has a value of the wrong kind", key), what_a_rule_is);
  }
  return out;
}

}  // namespace

std::optional<GgufRules> GgufRules::load(const std::string& path) {
  const toml::table table = read_toml(path, "rules of weights", "weights");
  const toml::node* gguf = table.get("gguf");
  if (!gguf) return std::nullopt;
  GgufRules out;
  out.file_ = path;
  if (!gguf->is_table())
    refuse_rule("gguf", path, line_of(*gguf), "gguf is no table", "[gguf] with a line for each entry");
  for (const auto& [key, node] : in_order(*gguf->as_table())) {
    if (key.str() != "optional") {
      out.rules_.push_back(gguf_rule_of(path, std::string(key.str()), node));
      continue;
    }
    if (!node.is_array()) refuse_rule("gguf", path, line_of(node), "a value of the wrong kind", "a list of parameters");
    for (const toml::node& name : *node.as_array()) {
      if (!name.is_string())
        refuse_rule("gguf", path, line_of(name), "a value of the wrong kind", "a list of parameters");
      out.optional_.push_back(*name.value<std::string>());
    }
  }
  return out;
}

GgufEntries GgufRules::entries(const SafetensorsFile& checkpoint,
                               const std::map<std::string, std::string>& given) const {
  GgufEntries out;
  for (const GgufRule& rule : rules_) out.emplace_back(rule.key, value_of(rule, checkpoint, given));
  for (const auto& [key, text] : given)
    if (std::ranges::find(rules_, key, &GgufRule::key) == rules_.end()) out.emplace_back(key, text);
  return out;
}

GgufValue GgufRules::value_of(const GgufRule& rule, const SafetensorsFile& checkpoint,
                              const std::map<std::string, std::string>& given) const {
  if (const auto found = given.find(rule.key); found != given.end()) return given_value(rule, found->second);
  switch (rule.source) {
    case GgufRule::Source::value:
      return rule.value;
    case GgufRule::Source::count:
      return uint32_t(std::ranges::count_if(
          checkpoint.types(), [&](const auto& tensor) { return match(rule.name, tensor.first).has_value(); }));
    case GgufRule::Source::extent: {
      const auto found = checkpoint.types().find(rule.name);
      if (found == checkpoint.types().end() || rule.dim < 0 || rule.dim >= int64_t(found->second.shape.size()))
        refuse_rule("gguf", file_, rule.line, fmt::format("the checkpoint does not tell {}", rule.key),
                    fmt::format("a tensor {} with a dimension {}", rule.name, rule.dim),
                    found == checkpoint.types().end() ? "no such tensor" : text(found->second),
                    "take the rules of the model that wrote the checkpoint");
      return uint32_t(found->second.shape[size_t(rule.dim)]);
    }
    case GgufRule::Source::given:
      break;
  }
  refuse_rule("gguf", file_, rule.line, fmt::format("{} is not known: {}", rule.key, rule.name), "", "",
              fmt::format("--metadata {}=VALUE says it", rule.key));
}

GgufValue GgufRules::given_value(const GgufRule& rule, const std::string& text) const {
  const auto refuse_value = [&](const char* expected) {
    throw UserError({.tag = "--metadata",
                     .message = fmt::format("this is no value of {}", rule.key),
                     .expected = expected,
                     .found = text},
                    ExitCode::usage);
  };
  const auto number = [&](auto value) -> GgufValue {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(double(value)))
      refuse_value(std::is_integral_v<decltype(value)> ? "a whole number from 0 to 4294967295" : "a number");
    return value;
  };
  const bool counts = rule.source == GgufRule::Source::count || rule.source == GgufRule::Source::extent;
  if (counts || std::holds_alternative<uint32_t>(rule.value)) return number(uint32_t{0});
  if (std::holds_alternative<float>(rule.value)) return number(0.0F);
  if (std::holds_alternative<bool>(rule.value)) {
    if (text != "true" && text != "false") refuse_value("true or false");
    return text == "true";
  }
  return text;
}

void GgufRules::check_complete(const SafetensorsFile& checkpoint, const WeightMap& map) const {
  size_t blocks = 0;
  std::map<std::string, std::set<std::string>> numbers;  // by parameter's pattern
  for (const WeightRule& rule : map.rules()) {
    std::set<std::string>& of_rule = numbers[rule.parameter];
    for (const auto& [name, type] : checkpoint.types())
      if (const auto found = match(rule.parameter, name)) of_rule.insert(found->empty() ? "" : found->begin()->second);
    if (rule.parameter.find('{') != std::string::npos) blocks = std::max(blocks, of_rule.size());
  }
  for (const WeightRule& rule : map.rules()) {
    if (std::ranges::find(optional_, rule.parameter) != optional_.end()) continue;
    const bool numbered = rule.parameter.find('{') != std::string::npos;
    for (size_t block = 0; block < (numbered ? blocks : 1); ++block)
      if (!numbers[rule.parameter].contains(numbered ? std::to_string(block) : ""))
        refuse_rule("gguf", file_, rule.line, "the checkpoint lacks a tensor that readers of the file ask for",
                    numbered ? fmt::format("{} of block {}, of {}", rule.parameter, block, blocks) : rule.parameter,
                    "no such tensor", "take the rules of the model that wrote the checkpoint");
  }
}

}  // namespace hetsynth
