// Attention in blocks on a GPU: scores exist for a tile of rows and columns at a time, in shared memory and registers,
// and never in device memory. Plain float32 arithmetic; which nests there are is decided in codegen/passes/attention.h.
#pragma once
#include <string>

#include "codegen/cuda/kernels/kernel.h"
#include "codegen/passes/attention.h"

namespace hetsynth::codegen::cuda {

/// Whether the kernels below can carry out a nest: its tiles fit into 48 KiB of shared memory, and it adds up nothing
/// but products (no gradient of a bias).
bool attention_has_kernels(const FusedAttention& nest, const LocalProgram& program, const Layouts& layouts,
                           const Program& reference);

/// Forward: one kernel, a block of threads for a tile of rows, with an online softmax. Backward: one kernel for each
/// side whose gradients are asked for; a block owns a tile of rows (or columns), makes the weights again from the other
/// side's tiles, and adds up in their order.
StepKernels attention_kernels(const KernelContext& context, const FusedAttention& nest, const std::string& name);

}  // namespace hetsynth::codegen::cuda
