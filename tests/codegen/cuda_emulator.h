// Runs generated CUDA kernels on the CPU, from the same text: threads of a block are fibers, which meet at barriers and
// warp operations.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace hetsynth::testing_support {

/// In which order blocks and threads take their turns. What needs a barrier it does not have differs between orders.
enum class Turns { forward, reversed };

/// The kernels of one file, compiled for the CPU. Throws std::runtime_error if a block's threads do not meet where they
/// must.
class EmulatedKernels {
 public:
  /// `names`: kernels of the file, numbered in this order.
  EmulatedKernels(const std::string& text, const std::vector<std::string>& names);
  ~EmulatedKernels();
  void launch(int kernel, unsigned blocks, unsigned threads, void** arguments, Turns turns) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hetsynth::testing_support
