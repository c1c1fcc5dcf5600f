// Data for a model when the user names none.
#pragma once
#include "runtime/data/batch_source.h"

namespace hetsynth::cli {

/// Every Debian carries licence texts: a model of text can be tried without fetching data.
inline constexpr const char* default_text = "/usr/share/common-licenses";

bool reads_text(const Program& program);

/// The options with default_text as path, if the program reads text and no path is given.
DataOptions with_default_data(const Program& program, DataOptions options);

}  // namespace hetsynth::cli
