// What every generated kernels file begins with: element functions, reductions in a fixed order, counter-based random
// numbers.
#pragma once
#include <string_view>

namespace hetsynth::codegen::cuda {

/// CUDA C++ that includes nothing. Also compiled for the CPU by the tests' emulation of a device.
std::string_view prelude();

}  // namespace hetsynth::codegen::cuda
