// Writing measured values into a cluster file, which otherwise stays as its author wrote it: order, names, comments.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "dsl/cluster/cluster.h"

namespace hetsynth {

/// What was measured of one host: its devices are alike, as cores of a machine are.
struct MeasuredHost {
  std::string name;  ///< of the host's entry in the file; an entry without a name is called host0, host1, ...
  DeviceSpeed device;
  std::optional<Link> inside;
};

/// The file's text with `measured = { ... }` in the tables of that host: in place of the measured values that stood
/// there, or new. Throws UserError where the file is no cluster file, has no such host, or writes its devices as inline
/// tables.
std::string with_measured(std::string_view toml, const std::string& file, const MeasuredHost& measured);

}  // namespace hetsynth
