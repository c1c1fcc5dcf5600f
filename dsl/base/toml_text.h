// TOML that people write: clusters, pins, rules of weights, jobs.
#pragma once
#include <toml++/toml.h>

#include <string>
#include <string_view>

namespace hetsynth {

/// The document. Throws UserError with the tag, and with the place in the file, for what is no TOML, and for keys that
/// nest deeper than the parser can follow.
toml::table parse_toml(std::string_view text, const std::string& file, const std::string& tag);

/// The same of a file of at most 1 MiB; `what` ("pins file") is named if it cannot be read.
toml::table read_toml(const std::string& path, const std::string& what, const std::string& tag);

}  // namespace hetsynth
