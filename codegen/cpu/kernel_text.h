// Prints a kernel as a C++ function: loops over rows, passes over the row that compilers vectorise, reductions over row
// buffers in between.
#pragma once
#include <string>
#include <vector>

#include "codegen/text/kernel.h"

namespace hetsynth::codegen {

struct KernelNames {
  std::string function;
  std::vector<std::string> parameters, loops, members;
};

/// The user's names: tensors for parameters and members, factors for loops.
KernelNames user_names(const Lowered& lowered, const Kernel& kernel, std::string function);
/// Names by number: equal kernels print equally.
KernelNames numbered_names(const Kernel& kernel);

/// "static void softmax_att(const float* __restrict__ scores, ...) {...}".
std::string kernel_text(const Kernel& kernel, const KernelNames& names);

}  // namespace hetsynth::codegen
