// A machine with GPUs, NCCL, cublasLt and cuDNN that is not there: tables of functions for runtime/cuda, behind which
// streams are queues, kernels run on the CPU from the text that NVRTC would compile, and every rule that a program must
// keep is checked. What breaks a rule comes back as an error of the driver whose text says what happened.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda/cuda_backend.h"
#include "tests/support/cuda/kernel_emulator.h"

namespace hetsynth::testing_support {

/// Which stream goes ahead where the events leave a choice.
enum class Eager { compute, communication, random };

struct MachineOptions {
  int gpus = 1;
  size_t memory_bytes = size_t(1) << 28;  ///< of each
  int major = 8, minor = 0;               ///< compute capability
  int driver_version = 13000;
  int multiprocessors = 132;  ///< of each
  int nccl_version = 22809;
  std::map<int, int> nccl_versions;  ///< by GPU, where it differs
  bool has_driver = true, has_nccl = true, has_cublas = true, has_cudnn = true;
  int cublas_version = 130100, nccl_release = 13;
  bool has_epilogues = true;  ///< cublasLt has algorithms for products with them
  bool has_cudnn_plans = true;
  CudaToolkit toolkit = emulated_toolkit();
  Eager eager = Eager::compute;
  Turns turns = Turns::forward;
  uint64_t seed = 1;
  bool traces_kernels = true;  ///< hold every load and store of kernels to bounds and events; five times slower
  /// The number of the allocation on any GPU that the driver refuses although there is room, from 1; 0: none.
  int refused_allocation = 0;
  /// Ranks that wait for others while nothing is carried out anywhere are told to wait for each other after this time.
  std::chrono::milliseconds patience{60000};
  /// Called before a rank of NCCL takes part in a collective, on its thread: may throw, as a rank that dies does.
  std::function<void(int gpu, const std::string& operation)> before_collective;

  static CudaToolkit emulated_toolkit();
};

/// One at a time: the tables hold plain functions.
class CudaDoubles {
 public:
  explicit CudaDoubles(MachineOptions options);
  ~CudaDoubles();
  CudaDoubles(const CudaDoubles&) = delete;
  CudaDoubles& operator=(const CudaDoubles&) = delete;

  const cuda::Backend& backend() const;
  /// May be changed between steps.
  MachineOptions& options();
  /// The first allocation of a GPU: its rank's arena.
  char* arena(int gpu) const;
  /// What each GPU was asked to do through NCCL since the last call, in words: "broadcast 128 f32 root 1".
  std::vector<std::string> take_collectives(int gpu);
  /// Fills a part of an arena with poison.
  void poison(int gpu, int64_t offset_bytes, int64_t bytes);
  /// Communicators of which some ranks aborted their part and others did not, and whatever was never given back
  /// (allocations, streams, events, modules, contexts, communicators), in words; "" if all is in order. To be asked
  /// when the ranks are gone.
  std::string left_behind() const;

 private:
  std::unique_ptr<struct DoubleMachine> machine_;
};

}  // namespace hetsynth::testing_support
