// Which tensors generated code never stores, whatever the plan (codegen/passes/grouping.h).
#pragma once
#include <vector>

#include "dsl/ir/program.h"

namespace hetsynth::synth {

/// By node: an elementwise operation's result that one operation of its phase and micro-batch reads once, in the order
/// in which it is written, and that so lives only inside that one's loop; or that a view has its storage for. Where a
/// plan moves it between forms it is stored after all (stored_values). `kinds`: as node_kinds gives them.
std::vector<char> fused_tensors(const Program& program, const std::vector<int>& kinds);

}  // namespace hetsynth::synth
