// Runs generated CUDA kernels on the CPU, from the same text: threads of a block are fibers, which meet at barriers and
// warp operations. Accesses to device memory are reported to the thread's Tracing, if there is one.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hetsynth::testing_support {

/// In which order blocks and threads take their turns. What needs a barrier it does not have differs between orders.
enum class Turns { forward, reversed, shuffled };

/// Names of the kernels that a file defines, in order.
std::vector<std::string> kernels_of(const std::string& text);

/// The kernels of one file, compiled for the CPU. Throws std::runtime_error if a block's threads do not meet where they
/// must.
class EmulatedKernels {
 public:
  /// `names`: kernels of the file, numbered in this order. `traced`: every load and store is reported.
  EmulatedKernels(const std::string& text, const std::vector<std::string>& names, bool traced = true);
  ~EmulatedKernels();
  /// `seed`: of the order, if it is shuffled. One launch at a time.
  void launch(int kernel, unsigned blocks, unsigned threads, void** arguments, Turns turns, uint64_t seed = 1) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hetsynth::testing_support
