#include "dsl/base/toml_text.h"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <utility>

#include "dsl/base/error.h"
#include "dsl/base/file.h"

namespace hetsynth {
namespace {

constexpr int64_t most_bytes = int64_t(1) << 20;

// toml++ bounds how deep values nest but not dotted keys, and it frees nested tables recursively.
constexpr int max_dots_per_line = 64;

}  // namespace

std::vector<TomlEntry> in_order(const toml::table& table) {
  std::multimap<std::pair<uint32_t, uint32_t>, TomlEntry> by_place;
  for (const auto& [key, value] : table) {
    const toml::source_position begin = key.source().begin;
    by_place.emplace(std::pair(begin.line, begin.column), TomlEntry{key, value});
  }
  std::vector<TomlEntry> out;
  for (const auto& [place, entry] : by_place) out.push_back(entry);
  return out;
}

toml::table parse_toml(std::string_view text, const std::string& file, const std::string& tag) {
  int line = 1, dots = 0;
  for (const char c : text) {
    if (c == '\n') ++line, dots = 0;
    if (c == '.' && ++dots > max_dots_per_line)
      throw UserError(Diagnostic{
          {file, line}, tag, fmt::format("more than {} dots in one line", max_dots_per_line), "", "", "", {}});
  }
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    const SourceLocation where{file, int(error.source().begin.line), int(error.source().begin.column)};
    throw UserError(Diagnostic{where, tag, fmt::format("not valid TOML: {}", error.description()), "", "", "", {}});
  }
}

toml::table read_toml(const std::string& path, const std::string& what, const std::string& tag) {
  return parse_toml(read_file(path, what, most_bytes), path, tag);
}

}  // namespace hetsynth
