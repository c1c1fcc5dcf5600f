// Attention in blocks by tensor cores: operands of bf16 or fp16, products by mma.m16n8k16 (of fp16 on sm_75 by two of
// m16n8k8) with sums in float32, statistics and everything between the products in float32 (Dao 2023, without atomics:
// a gradient by keys has a kernel of its own).
#pragma once
#include <string>

#include "codegen/cuda/kernels/kernel.h"
#include "codegen/passes/attention.h"

namespace hetsynth::codegen::cuda {

/// Whether a GPU of this architecture ("sm_80") multiplies such operands by tensor cores as these kernels want them.
bool has_tensor_cores(const std::string& architecture, DType operands);

/// Whether a file of kernels can run on GPUs with tensor cores alone.
bool needs_tensor_cores(const std::string& kernels);

/// Whether the kernels below can carry out a nest on such a GPU: products of bf16 or fp16, features that are multiples
/// of 16 up to 128 and lie side by side on 16 bytes, tiles that fit into 48 KiB of shared memory, and no sums but
/// products.
bool attention_has_tensor_kernels(const FusedAttention& nest, const LocalProgram& program, const Layouts& layouts,
                                  const Program& reference, const std::string& architecture);

/// The kernels of attention_kernels.h, for tensor cores. Four warps own 16 or 32 rows (or columns) each. Operands lie
/// in shared memory, whose rows are 8 elements longer than the features: eight rows of a fragment lie in different
/// banks. Scores, weights and results are fragments in registers: of a score, what the next product reads is in the
/// very lane that computed it.
StepKernels tensor_attention_kernels(const KernelContext& context, const FusedAttention& nest, const std::string& name);

}  // namespace hetsynth::codegen::cuda
