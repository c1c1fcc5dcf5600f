// The main program of a stand-alone project, as text.
#pragma once
#include <string_view>

namespace hetsynth::codegen {

extern const std::string_view standalone_main;

}  // namespace hetsynth::codegen
