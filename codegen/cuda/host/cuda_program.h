// The generator for cuda devices.
#pragma once
#include "codegen/cuda/plan/element_text.h"
#include "codegen/interface/device_program.h"

namespace hetsynth::codegen {

/// Files: "rank<N>_host.cpp" and "rank<N>_kernels.cu".
DeviceProgram generate_cuda(const Program& reference, const SpmdProgram& program, const Cluster& cluster, int rank,
                            const cuda::ElementTypes& types = {});

}  // namespace hetsynth::codegen
