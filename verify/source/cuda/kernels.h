// The kernels of a cuda rank as text: read as C++, by declarations of what CUDA and the generator's prelude define.
#pragma once
#include <string>

#include "verify/source/text/syntax.h"

namespace hetsynth::source {

/// Only kernels are defined in the unit. The prelude must stand in the text word for word; its functions count as what
/// they are named after (library.h). Throws Differs, NotFollowed.
Unit read_kernels(const std::string& text, const std::string& prelude, const std::string& file_name);

}  // namespace hetsynth::source
