#include "dsl/base/version.h"

#include <string_view>

namespace hetsynth {

std::string tool_version() { return HETSYNTH_VERSION; }

std::string tool_version_and_commit() {
  const std::string_view commit = HETSYNTH_COMMIT;
  return commit.empty() ? tool_version() : tool_version() + " (" + std::string(commit) + ")";
}

}  // namespace hetsynth
