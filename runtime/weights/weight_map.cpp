#include "runtime/weights/weight_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "dsl/base/error.h"
#include "dsl/base/suggest.h"
#include "runtime/weights/rules_text.h"

namespace hetsynth {
namespace {

std::string text_of(const std::string& file, const toml::node& node, const std::string& what) {
  const auto text = node.value<std::string>();
  if (!node.is_string() || text->empty())
    refuse_rule("weights", file, line_of(node), "a value of the wrong kind", what);
  return *text;
}

std::vector<std::string> texts_of(const std::string& file, const toml::node& node, const std::string& what) {
  const toml::array* array = node.as_array();
  if (!array) refuse_rule("weights", file, line_of(node), "a value of the wrong kind", "a list of " + what);
  std::vector<std::string> out;
  for (const toml::node& element : *array) {
    if (!element.is_string())
      refuse_rule("weights", file, line_of(element), "a value of the wrong kind", "a list of " + what);
    out.push_back(*element.value<std::string>());
  }
  return out;
}

/// A number in the file's name that nothing says would make one rule stand for many tensors.
void check_names(const std::string& file, const toml::node& node, const WeightRule& rule) {
  std::vector<std::string> known = names_in(rule.parameter);
  for (const std::string& name : rule.layout.separate()) known.push_back(name);
  const std::vector<std::string> used = names_in(rule.tensor);
  for (const std::string& name : used)
    if (name.empty() || std::ranges::find(known, name) == known.end())
      refuse_rule("weights", file, line_of(node), "a number in the name of the file's tensor is said nowhere",
                  "one of those in braces in the parameter's name, or a dimension that the layout leaves out",
                  rule.tensor);
  for (const std::string& name : known)
    if (std::ranges::find(used, name) == used.end())
      refuse_rule(
          "weights", file, line_of(node), fmt::format("{{{}}} does not stand in the name of the file's tensor", name),
          "the same numbers in both names, and those of the dimensions that the layout leaves out", rule.tensor);
}

WeightRule rule_of(const std::string& file, const std::string& parameter, const toml::node& node) {
  WeightRule out{parameter, "", {}, line_of(node)};
  const toml::table* table = node.as_table();
  if (!table) {
    out.tensor = text_of(file, node, "the name of the file's tensor, or { from = ..., layout = ... }");
  } else {
    std::string layout;
    int64_t part = 0;
    for (const auto& [key, value] : in_order(*table)) {
      if (key.str() == "from") {
        out.tensor = text_of(file, value, "the name of the file's tensor");
      } else if (key.str() == "layout") {
        layout = text_of(file, value, "a layout, as \"c h d -> (h d) c\"");
      } else if (key.str() == "part") {
        if (!value.is_integer())
          refuse_rule("weights", file, line_of(value), "a value of the wrong kind", "the number of a part, from 0");
        part = *value.value<int64_t>();
      } else {
        static const std::vector<std::string> keys = {"from", "layout", "part"};
        refuse_rule("weights", file, line_of(value), "a key that means nothing here", "one of " + quoted_list(keys),
                    quote(std::string(key.str())));
      }
    }
    if (out.tensor.empty())
      refuse_rule("weights", file, line_of(node), "a rule does not say from where", "from = \"name of the tensor\"");
    try {
      if (!layout.empty()) out.layout = Layout(layout, part);
    } catch (const UserError& error) {
      refuse_rule("weights", file, line_of(node), error.diagnostic().message, error.diagnostic().expected,
                  error.diagnostic().found);
    }
  }
  check_names(file, node, out);
  return out;
}

}  // namespace

WeightMap WeightMap::load(const std::string& path) {
  const toml::table table = read_toml(path, "rules of weights", "weights");
  WeightMap out;
  out.file_ = path;
  for (const auto& [key, node] : in_order(table)) {
    if (key.str() == "may_lack") {
      out.may_lack_ = texts_of(path, node, "beginnings of names");
    } else if (key.str() == "ignore") {
      out.ignored_ = texts_of(path, node, "names of tensors");
    } else if (key.str() == "copies") {
      out.copies_ = texts_of(path, node, "beginnings of names");
    } else if (key.str() == "tensors" && node.is_table()) {
      for (const auto& [name, rule] : in_order(*node.as_table()))
        out.rules_.push_back(rule_of(path, std::string(name.str()), rule));
    } else if (key.str() != "gguf" && key.str() != "merge") {  // of these, gguf_rules.h and merge_rules.h
      static const std::vector<std::string> keys = {"may_lack", "ignore", "copies", "tensors", "gguf", "merge"};
      refuse_rule("weights", path, line_of(node), "a key that means nothing here", "one of " + quoted_list(keys),
                  quote(std::string(key.str())));
    }
  }
  if (out.rules_.empty())
    refuse_rule("weights", path, line_of(table), "the file has no rule",
                "[tensors] with a line for each kind of parameter");
  return out;
}

std::optional<WeightPlace> WeightMap::place_of(const std::string& parameter) const {
  if (is_identity()) return WeightPlace{parameter, nullptr};
  for (const WeightRule& rule : rules_)
    if (const auto numbers = match(rule.parameter, parameter))
      return WeightPlace{filled_in(rule.tensor, *numbers), &rule};
  return std::nullopt;
}

std::string WeightMap::original_of(const std::string& parameter) const {
  if (place_of(parameter)) return "";
  std::string out;
  for (const std::string& beginning : copies_) {
    if (!parameter.starts_with(beginning)) continue;
    const std::string original = parameter.substr(beginning.size());
    if (place_of(original)) return original;
    if (out.empty()) out = original;
  }
  return out;
}

std::optional<WeightPlace> WeightMap::start_of(const std::string& parameter) const {
  const std::string original = original_of(parameter);
  return place_of(original.empty() ? parameter : original);
}

std::vector<std::string> WeightMap::names_of(const std::string& tensor) const {
  std::vector<std::string> out = {tensor};
  for (const std::string& beginning : may_lack_)
    if (tensor.starts_with(beginning)) out.push_back(tensor.substr(beginning.size()));
  return out;
}

bool WeightMap::ignores(const std::string& tensor) const {
  return std::ranges::any_of(ignored_, [&](const std::string& pattern) {
    return std::ranges::any_of(names_of(pattern),
                               [&](const std::string& name) { return match(name, tensor).has_value(); });
  });
}

std::optional<std::map<std::string, std::string>> match(const std::string& pattern, const std::string& name) {
  std::map<std::string, std::string> out;
  size_t at = 0;
  for (size_t p = 0; p < pattern.size();) {
    const size_t end = pattern[p] == '{' ? pattern.find('}', p) : std::string::npos;
    if (end == std::string::npos) {
      if (at >= name.size() || name[at] != pattern[p]) return std::nullopt;
      ++at, ++p;
      continue;
    }
    size_t digits = at;
    while (digits < name.size() && std::isdigit(static_cast<unsigned char>(name[digits]))) ++digits;
    if (digits == at) return std::nullopt;
    const std::string number = name.substr(at, digits - at);
    if (!out.emplace(pattern.substr(p + 1, end - p - 1), number).second &&
        out.at(pattern.substr(p + 1, end - p - 1)) != number)
      return std::nullopt;
    at = digits;
    p = end + 1;
  }
  return at == name.size() ? std::optional(out) : std::nullopt;
}

std::vector<PlacedTensor> tensors_of(const WeightPlace& place, const Layout::Walk& walk) {
  std::vector<PlacedTensor> out;
  const std::vector<std::string> names = place.rule ? place.rule->layout.separate() : std::vector<std::string>{};
  std::vector<int64_t> at(walk.separate.size(), 0);
  do {
    std::map<std::string, std::string> numbers;
    for (size_t i = 0; i < names.size(); ++i) numbers[names[i]] = std::to_string(at[i]);
    out.push_back({filled_in(place.tensor, numbers), at});
  } while (next_index(walk, at));
  return out;
}

std::string filled_in(const std::string& pattern, const std::map<std::string, std::string>& numbers) {
  std::string out = pattern;
  for (const auto& [name, number] : numbers) {
    const std::string braced = "{" + name + "}";
    for (size_t at = out.find(braced); at != std::string::npos; at = out.find(braced, at + number.size()))
      out.replace(at, braced.size(), number);
  }
  return out;
}

}  // namespace hetsynth
