// NCCL's functions for ranks that are threads of one process on ONE GPU, which NCCL itself refuses before 2.30: copies
// and a kernel that adds, on the streams of the ranks, ordered by events. What is computed is right; the time it takes
// is that of the GPU's own memory, not of a link.
#pragma once
#include <string>

#include "runtime/cuda/cuda_backend.h"

namespace hetsynth::testing {

/// The backend with such functions in place of NCCL's. One at a time; ranks must be gone before it goes. Ranks meet on
/// the host in each collective, so steps cannot be recorded as graphs. Sums, maxima, minima, products and averages of
/// float32; other types are copied alone. No ncclCommSplit: plans have one mesh axis.
class OneGpuNccl {
 public:
  OneGpuNccl(const cuda::Backend& machine, const std::string& architecture);
  ~OneGpuNccl();
  OneGpuNccl(const OneGpuNccl&) = delete;
  OneGpuNccl& operator=(const OneGpuNccl&) = delete;

  const cuda::Backend& backend() const { return backend_; }

 private:
  cuda::Api api_;
  cuda::Backend backend_;
};

}  // namespace hetsynth::testing
