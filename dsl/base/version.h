// The tool's version, recorded in plans and cache keys.
#pragma once
#include <string>

namespace hetsynth {
std::string tool_version();
}  // namespace hetsynth
