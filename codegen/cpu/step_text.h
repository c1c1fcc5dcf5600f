// Prints the step of a cpu rank: pointers into the arena, kernels, matrix products and collectives in order.
#pragma once
#include <string>
#include <vector>

#include "codegen/text/kernel.h"

namespace hetsynth::codegen {

/// The whole translation unit of a rank. `marks`: not null if the step is to be measured; then gains what the marks in
/// the text stand for, by number.
std::string cpu_source(const Lowered& lowered, const Cluster& cluster, std::vector<MarkedWork>* marks = nullptr);

}  // namespace hetsynth::codegen
