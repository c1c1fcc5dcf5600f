// C++ text to the tree of syntax.h, by Clang in process. The text includes nothing.
#pragma once
#include <string>
#include <string_view>

#include "verify/source/text/syntax.h"

namespace hetsynth::source {

/// `file_name` stands in Clang's messages. Constructs outside of syntax.h become Kind::other: that they matter is for
/// the reader of the tree to say.
Unit parse(std::string_view text, const std::string& file_name);

}  // namespace hetsynth::source
