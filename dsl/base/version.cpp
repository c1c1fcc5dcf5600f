#include "dsl/base/version.h"

namespace hetsynth {
std::string tool_version() { return HETSYNTH_VERSION; }
}  // namespace hetsynth
