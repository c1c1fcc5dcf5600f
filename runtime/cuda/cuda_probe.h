// Measures what GPUs of this machine deliver as devices: the numbers the cost model plans with.
#pragma once
#include <vector>

#include "runtime/cuda/cuda_backend.h"
#include "runtime/rank/probe_result.h"

namespace hetsynth::cuda {

/// Sizes that fill a GPU, and none that would not fit one.
struct GpuProbeOptions {
  int64_t matmul_extent = 4096;
  int64_t memory_bytes = int64_t(1) << 30;    ///< copied from one half to the other
  int64_t message_bytes = int64_t(64) << 20;  ///< of the gathered tensor
  int64_t loop_elements = int64_t(1) << 22;
  double seconds = 0.4;  ///< per measurement
};

/// The GPUs of the devices' indices, all at work at the same time. Matrix products are of cublasLt, on random
/// numbers, in float32 and by tensor cores of TF32, bf16 and fp16, as far as the GPU has them; loops are a kernel of
/// exponentials, memory is a copy on the device (reads and writes together), the link an all-gather of NCCL; calls cost
/// what the smallest of their kind need. Products with an epilogue are held against the product and a kernel, one after
/// the other. Nothing is said of convolutions. Throws UserError where the devices cannot run here (require_cuda),
/// std::runtime_error with the words of the library that failed.
ProbeResult probe_gpus(const Backend& backend, const std::vector<Device>& devices, const GpuProbeOptions& options = {});

}  // namespace hetsynth::cuda
