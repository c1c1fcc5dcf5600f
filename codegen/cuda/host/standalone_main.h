// The main program of a stand-alone project of cuda ranks.
#pragma once
#include <string_view>

namespace hetsynth::codegen::cuda {

/// CUDA C++ for nvcc. Compiled once per rank, with RANK and the names of the rank's generated files as definitions; it
/// includes ranks.h, rank<N>_kernel_table.h and the kernels file.
extern const std::string_view standalone_main;

}  // namespace hetsynth::codegen::cuda
