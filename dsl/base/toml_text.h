// TOML that people write: clusters, pins, rules of weights, jobs.
#pragma once
#include <toml++/toml.h>

#include <string>
#include <string_view>
#include <vector>

namespace hetsynth {

/// One line of a table; it refers to the table.
struct TomlEntry {
  const toml::key& key;
  const toml::node& value;
};
/// In the order of the file, so that of several mistakes the first one is told: toml++ sorts by key.
std::vector<TomlEntry> in_order(const toml::table& table);

/// The document. Throws UserError with the tag, and with the place in the file, for what is no TOML, and for keys that
/// nest deeper than the parser can follow.
toml::table parse_toml(std::string_view text, const std::string& file, const std::string& tag);

/// The same of a file of at most 1 MiB; `what` ("pins file") is named if it cannot be read.
toml::table read_toml(const std::string& path, const std::string& what, const std::string& tag);

}  // namespace hetsynth
