// Clang's NVPTX target in process: CUDA C++ to PTX, for GPUs that recent toolkits no longer compile for. Needs no CUDA
// headers; the mathematical functions come from the toolkit's libdevice.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "dsl/jit/compiler.h"

namespace hetsynth {

/// "sm_60", ...: what `compile_ptx` is meant for. The linked LLVM knows all of them.
const std::vector<std::string>& ptx_architectures();

/// Compiles kernels that include nothing to the text of PTX 6.3. `architecture`: one of `ptx_architectures`;
/// `device_library`: path of libdevice.10.bc. Mistakes in the text are in the result.
CompileResult compile_ptx(std::string_view source, const std::string& name, const std::string& architecture,
                          const std::string& device_library);

}  // namespace hetsynth
