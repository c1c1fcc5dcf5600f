// One kernel in place of several that differ in names alone: the layers of a network repeat each other.
#pragma once
#include <string>

#include "codegen/cuda/host/device_schedule.h"

namespace hetsynth::codegen::cuda {

/// Gives steps whose kernels are alike, but for the names of the kernel, its arguments and its variables, the first of
/// them to launch; the others lose their text (`Kernel::text` is empty) and take its name. Arguments keep their order,
/// so every launch passes its own. The compiler then sees each kernel once: of 187 in a GPT of four layers 42 remain.
void share_kernels(DeviceSchedule& schedule);

/// The text of a kernel with comments and white space gone and the names that it declares itself replaced by numbers in
/// the order of their first use: equal for two kernels if and only if one is the other under other names.
std::string without_names(const std::string& kernel_text);

}  // namespace hetsynth::codegen::cuda
