// The stage `fuse epilogues`: products that cublasLt follows up by itself. It adds the bias, applies the activation or
// multiplies by the activation's slope before it stores, so that the kernel for that, which would read the whole
// product again, is gone.
#pragma once
#include <vector>

#include "codegen/cuda/plan/fusion.h"
#include "dsl/cluster/product_epilogue.h"

namespace hetsynth::codegen::cuda {

/// Joins a product and the only kernel that reads it where that kernel does nothing but what `faster` lists. What a
/// kernel does beside that would read the product all the same: then nothing is joined. The joined step stands where
/// the kernel stood.
std::vector<LaunchStep> fuse_epilogues(std::vector<LaunchStep> steps, const Program& reference,
                                       const LocalProgram& program, const Layouts& layouts,
                                       const FusedProducts& faster);

}  // namespace hetsynth::codegen::cuda
