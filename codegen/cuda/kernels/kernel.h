// One generated kernel: its text and what the host side must know to launch it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "codegen/cuda/plan/element_text.h"
#include "codegen/cuda/plan/fusion.h"
#include "codegen/passes/lower.h"

namespace hetsynth::codegen::cuda {

/// Threads of a block of a kernel whose elements need no other number.
constexpr int64_t usual_threads = 256;
/// Blocks of a launch: more than any GPU runs at once. Kernels loop over what is left.
constexpr int64_t most_blocks = 65536;

/// Blocks of a launch that goes through so many items, each block taking `per_block` at a time.
inline int64_t blocks_for(int64_t items, int64_t per_block) {
  return std::clamp<int64_t>((items + per_block - 1) / per_block, 1, most_blocks);
}

struct KernelArgument {
  enum class Kind : uint8_t { storage, scratch, clock };  ///< clock: where step and seed lie
  Kind kind = Kind::storage;
  ValueId value = -1;  ///< storage: of which value
  int scratch = -1;    ///< scratch: number within the step
  std::string name;
};

struct Kernel {
  std::string name;
  std::string text;  ///< empty if it launches a kernel of this name that stands elsewhere (share_kernels)
  std::vector<KernelArgument> arguments;
  int64_t blocks = 1;
  int threads = int(usual_threads);
};

/// The kernels of one step, in order; scratch storage lives during the step alone.
struct StepKernels {
  std::vector<Kernel> kernels;
  std::vector<int64_t> scratch_bytes;
};

/// What printing a kernel needs to know of its surroundings.
struct KernelContext {
  const Lowered& lowered;
  /// By value: somebody outside of the step that makes it reads it.
  const std::vector<bool>& stored;
  ElementTypes types;
};

/// Names that kernels use themselves and that no tensor may have.
bool is_kernel_word(const std::string& name);

StepKernels group_kernels(const KernelContext& context, const KernelGroup& group, const std::string& name);
StepKernels scatter_kernels(const KernelContext& context, const LocalOp& op, const ScatterShape& shape,
                            const std::string& name);

/// Copies between a tensor and the order in which shares travel: piece by piece, each piece row-major.
/// packed = [pieces][outer, length of the piece, inner]; whole = [outer, extent, inner]; pieces lie `piece_stride`
/// elements apart, or directly after each other if it is 0.
struct PieceCopy {
  int64_t outer = 1, inner = 1;
  std::vector<int64_t> bounds = {};  ///< of the pieces in the cut dimension, in elements
  int64_t piece_stride = 0;
  bool pack = true;  ///< whole -> packed, otherwise packed -> whole
  /// Unpacking: the piece that lies in an array of its own instead of among the packed ones; -1: none does.
  int own = -1;
  /// Packing: pieces that may overlap and leave gaps, of a dimension of `extent` elements; not empty: `bounds` is
  /// ignored.
  std::vector<Range> parts = {};
  int64_t extent = 0;
};
/// `own`: of the array that PieceCopy::own lies in.
struct PieceCopyNames {
  std::string kernel, source, destination, own = {};
};
/// Its parameters: source, the array of the own piece if there is one, destination.
Kernel piece_copy_kernel(const PieceCopy& copy, DType dtype, const ElementTypes& types, const PieceCopyNames& names);

}  // namespace hetsynth::codegen::cuda
