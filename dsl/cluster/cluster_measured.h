// Writing measured values into a cluster file, which otherwise stays as its author wrote it: order, names, comments.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "dsl/cluster/cluster.h"

namespace hetsynth {

/// What was measured of one host: its devices are alike, as cores of a machine are.
struct MeasuredHost {
  /// Of the host's entry in the file, or of one of the hosts that an entry with a count stands for: "gpus[1]". An entry
  /// without a name is called host0, host1, ...
  std::string name;
  DeviceSpeed device;
  std::optional<Link> inside;
  std::optional<Link> outside = {};  ///< to other hosts, in both directions
  bool adds = false;                 ///< what was measured before and is not measured now stays
};

/// The file's text with `measured = { ... }` in the tables of that host: in place of the measured values that stood
/// there, or new. Throws UserError where the file is no cluster file, has no such host, or writes its devices as inline
/// tables.
std::string with_measured(std::string_view toml, const std::string& file, const MeasuredHost& measured);
/// The same for the links between hosts. The file must have several.
std::string with_measured_between(std::string_view toml, const std::string& file, const Link& between);

}  // namespace hetsynth
