// The host side of a cuda rank's program: C++ that includes nothing and issues kernels, products and NCCL calls to two
// streams.
#pragma once
#include <string>
#include <string_view>

#include "codegen/cuda/host/device_schedule.h"

namespace hetsynth::codegen::cuda {

/// What every host text declares of the runtime and of NCCL, and how it launches.
std::string_view host_declarations();

/// One translation unit with `extern "C" int hetsynth_step(HetsynthContext*)`.
std::string host_text(const DeviceSchedule& schedule, const Cluster& cluster);

/// One translation unit of all kernels, numbered in the order of `hetsynth_kernels` of the host side.
std::string kernels_text(const DeviceSchedule& schedule, const Cluster& cluster);

}  // namespace hetsynth::codegen::cuda
