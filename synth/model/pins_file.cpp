#include "dsl/base/error.h"
#include "dsl/base/suggest.h"
#include "dsl/base/toml_text.h"
#include "synth/model/pins.h"

namespace hetsynth {
namespace {

[[noreturn]] void fail(const std::string& file, const toml::source_region& place, std::string message,
                       std::string expected, std::string found) {
  SourceLocation where;
  where.file = file;
  where.line = int(place.begin.line);
  throw UserError({.where = where,
                   .tag = "pins",
                   .message = std::move(message),
                   .expected = std::move(expected),
                   .found = std::move(found),
                   .mend = "see docs/synthesis.md for the keys of such a file"},
                  ExitCode::invalid_input);
}

template <typename T>
std::vector<T> list(const toml::node& node, const std::string& file, const std::string& what) {
  std::vector<T> out;
  if (const toml::array* array = node.as_array())
    for (const toml::node& element : *array) {
      auto value = element.value<T>();
      if (!value) fail(file, element.source(), "a value of the wrong kind", what, "something else");
      out.push_back(*value);
    }
  else
    fail(file, node.source(), "a value of the wrong kind", what, "no list");
  return out;
}

}  // namespace

PlanPins load_pins(const std::string& path) {
  const toml::table table = read_toml(path, "pins file", "pins");
  static const std::vector<std::string> keys = {"placement", "forbid", "ratio", "mesh"};
  PlanPins pins;
  for (const auto& [key, node] : in_order(table)) {
    const std::string word(key.str());
    if (word == "placement" && node.is_table()) {
      for (const auto& [name, value] : in_order(*node.as_table())) {
        auto placement = value.value<std::string>();
        if (!placement)
          fail(path, value.source(), "a value of the wrong kind", "a placement in quotes", "something else");
        pins.placements.push_back({std::string(name.str()), *placement});
      }
    } else if (word == "forbid") {
      for (const std::string& opcode : list<std::string>(node, path, "a list of instructions in quotes"))
        add_forbidden(opcode, &pins);
    } else if (word == "ratio") {
      pins.ratio = list<double>(node, path, "a list of numbers");
    } else if (word == "mesh") {
      for (int64_t size : list<int64_t>(node, path, "a list of whole numbers")) {
        if (size < 1 || size > max_cluster_devices)
          fail(path, node.source(), "an axis has at least one device", "sizes from 1", std::to_string(size));
        pins.mesh.push_back(int(size));
      }
    } else {
      fail(path, node.source(), "a key that means nothing here", "one of " + quoted_list(keys),
           quote(word) + (did_you_mean(word, keys).empty() ? "" : "; " + did_you_mean(word, keys)));
    }
  }
  return pins;
}

}  // namespace hetsynth
