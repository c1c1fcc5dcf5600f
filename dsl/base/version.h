// The tool's version.
#pragma once
#include <string>

namespace hetsynth {
/// Recorded in plans and in keys of caches.
std::string tool_version();
/// For people: the version, and the commit that the tool was built from where that is known: "0.1.0 (ea6b48d)".
std::string tool_version_and_commit();
}  // namespace hetsynth
