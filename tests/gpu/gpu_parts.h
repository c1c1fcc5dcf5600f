// One GPU as several unequal devices: green contexts with some of its multiprocessors each.
#pragma once
#include <string>
#include <vector>

#include "runtime/cuda/cuda_api.h"
#include "runtime/cuda/cuda_device.h"

namespace hetsynth::testing {

/// "" if the driver can cut GPU 0 so, or why not: it is older than CUDA 12.4, or the GPU too small.
std::string why_not_parted(const cuda::Driver& driver, const std::vector<int>& multiprocessors);

/// Contexts of GPU 0 with so many multiprocessors each, multiples of 8 (what recent GPUs ask for). They share its
/// memory and its address space. Ranks that run in them must be gone before.
class GpuParts {
 public:
  /// Throws std::runtime_error naming the call that failed.
  GpuParts(const cuda::Driver& driver, const std::vector<int>& multiprocessors);
  ~GpuParts();
  GpuParts(const GpuParts&) = delete;
  GpuParts& operator=(const GpuParts&) = delete;

  const std::vector<cuda::GpuPart>& parts() const { return parts_; }

 private:
  void require(int error, const char* call) const;
  const cuda::Driver& driver_;
  int device_ = 0;
  std::vector<cuda::GpuPart> parts_;
};

}  // namespace hetsynth::testing
