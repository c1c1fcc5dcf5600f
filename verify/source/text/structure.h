// What a function does, apart from names and from which streams of random numbers it draws.
#pragma once
#include <string>
#include <vector>

#include "verify/source/text/syntax.h"

namespace hetsynth::source {

/// The same of two functions whose statements are the same but for names, and for numbers of streams that stand for
/// each other one to one. `streams`: those of this function, by first use.
std::string structure_of(const Function& function, std::vector<int64_t>& streams);

}  // namespace hetsynth::source
