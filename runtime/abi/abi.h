// The functions generated programs call, by name, for the compiler that links generated source in memory.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace hetsynth {

/// Name and address of every function of codegen/interface/abi.h. Naming them here also keeps the linker from dropping
/// them.
std::vector<std::pair<std::string, void*>> abi_symbols();

}  // namespace hetsynth
