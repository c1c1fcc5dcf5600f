// What follows a product that cublasLt does not follow up by itself: kernels that do what its epilogues do.
#pragma once
#include <functional>
#include <string>

#include "runtime/cuda/device_product.h"
#include "runtime/jit/nvrtc.h"

namespace hetsynth::cuda {

/// Loaded into the current context for the life of the object. Used from one thread.
class EpilogueKernels {
 public:
  using Compile = std::function<CudaCode(const std::string& source, const std::string& name)>;
  EpilogueKernels(const Driver& driver, const Compile& compile) : driver_(driver), compile_(compile) {}
  ~EpilogueKernels();
  EpilogueKernels(const EpilogueKernels&) = delete;
  EpilogueKernels& operator=(const EpilogueKernels&) = delete;

  /// Enqueues what is to become of a product of that shape, whose bare result is c. Element by element, then, where
  /// columns are summed up, a block for each 32 of them, in a fixed order. Compiles the kernels when it is first
  /// called. Returns "" or what failed.
  std::string follow(const ProductShape& shape, const ProductOperands& operands, void* stream);

 private:
  std::string load();
  std::string launch(void* function, int64_t blocks, void** arguments, void* stream) const;
  std::string failed(int error, const char* call) const;
  const Driver& driver_;
  Compile compile_;
  void *module_ = nullptr, *follow_ = nullptr, *sum_columns_ = nullptr;
};

}  // namespace hetsynth::cuda
