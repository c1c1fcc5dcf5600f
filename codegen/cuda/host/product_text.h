// The text of matrix products on the host side: calls of cuBLAS.
#pragma once
#include <functional>
#include <string>

#include "codegen/cuda/kernels/kernel_writer.h"
#include "codegen/cuda/plan/fusion.h"
#include "codegen/passes/contraction.h"

namespace hetsynth::codegen::cuda {

/// The address of a value as the host program writes it.
using PointerTo = std::function<std::string(ValueId)>;

/// Loops over calls. `operands`: type of what is multiplied.
void product_text(Lines& out, const LocalOp& op, const Contraction& c, DType operands, const PointerTo& pointer);

/// One call that follows the product up by itself. Its result lies row by row: where the product's lies column by
/// column, it is that of the transposes.
void product_then_text(Lines& out, const LocalOp& op, const Contraction& c, const Epilogue& epilogue, DType operands,
                       const PointerTo& pointer);

}  // namespace hetsynth::codegen::cuda
