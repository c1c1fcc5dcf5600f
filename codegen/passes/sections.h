// Which operators of a rank may run together at all.
#pragma once
#include <vector>

#include "codegen/passes/local.h"

namespace hetsynth::codegen {

struct Section {
  int stretch;  ///< ascends: before, in and behind every loop
  int phase;    ///< forward and backward of every micro-batch, and the update
  bool operator==(const Section&) const = default;
};

/// By operator. What is made again for the backward pass belongs to that: in the loops of the forward pass it would be
/// made too early, and kept.
std::vector<Section> sections(const LocalProgram& program);

}  // namespace hetsynth::codegen
