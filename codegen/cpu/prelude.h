// The few lines of C++ that generated kernels lean on: inline mathematical functions that vectorise, sums in a fixed
// order, Philox.
#pragma once
#include <string>
#include <string_view>

namespace hetsynth::codegen {

/// Definitions of the prelude functions that `text` calls, in order, with what these call in turn. Includes nothing.
std::string prelude_for(std::string_view text);

/// All of them.
std::string whole_prelude();

}  // namespace hetsynth::codegen
