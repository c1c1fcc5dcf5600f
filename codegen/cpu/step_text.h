// Prints the step of a cpu rank: pointers into the arena, kernels, matrix products and collectives in order.
#pragma once
#include <string>

#include "codegen/text/kernel.h"

namespace hetsynth::codegen {

/// The whole translation unit of a rank.
std::string cpu_source(const Lowered& lowered, const Cluster& cluster);

}  // namespace hetsynth::codegen
