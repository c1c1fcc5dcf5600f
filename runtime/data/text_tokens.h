// Text as tokens: its bytes.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/token_windows.h"

namespace hetsynth {

/// Windows of a text file, or of all files below a folder. Throws UserError.
std::unique_ptr<Dataset> open_text(const std::string& path, const std::vector<const Node*>& inputs);

}  // namespace hetsynth
