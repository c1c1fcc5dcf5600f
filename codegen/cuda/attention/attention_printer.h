// What the printers of attention kernels share: names, addresses, elements of a block, the grid of a kernel.
#pragma once
#include <fmt/format.h>

#include <set>
#include <string>
#include <vector>

#include "codegen/cuda/kernels/kernel_writer.h"
#include "codegen/cuda/plan/attention_tiles.h"

namespace hetsynth::codegen::cuda::attention {

class NestPrinter {
 protected:
  /// Both outlive it.
  NestPrinter(const KernelContext& context, const FusedAttention& attention, std::string name);

  void line(const std::string& text) { lines_.add(text); }
  template <class... T>
  void add(fmt::format_string<T...> text, T&&... values) {
    lines_.add(fmt::format(text, std::forward<T>(values)...));
  }
  template <class... T>
  void open(fmt::format_string<T...> text, T&&... values) {
    lines_.open(fmt::format(text, std::forward<T>(values)...));
  }
  void close() { lines_.close(); }
  void barrier() { line("__syncthreads();"); }
  void unrolled(const std::string& counter, int64_t count) {
    line("#pragma unroll");
    open("for (int {0} = 0; {0} < {1}; ++{0}) {{", counter, count);
  }
  /// Of a long loop, so many turns at once: left to itself the compiler takes all, and seconds.
  void unroll(int64_t turns);
  void next_kernel();
  /// That of the forward pass, or one for all gradients that sum over the same.
  template <class Forward, class Backward>
  StepKernels kernels(const Forward& forward, const Backward& backward) {
    StepKernels out;
    if (!a_.backward) {
      out.kernels.push_back(forward());
      return out;
    }
    for (const Gradients& gradients : gradients_of(nest_)) {
      next_kernel();
      out.kernels.push_back(backward(gradients));
    }
    return out;
  }

  const std::string& tensor(ValueId value) const { return context_.lowered.names[size_t(value)]; }
  std::string element(ValueId value) const { return tensor(value) + "_"; }
  std::string part(ValueId value) const { return tensor(value) + "_part"; }
  std::string block(ValueId value) const { return tensor(value) + "_tile"; }
  const std::string& row() const { return dims_[size_t(a_.row)]; }
  const std::string& column() const { return dims_[size_t(a_.column)]; }
  int64_t shift() const { return a_.ranges[size_t(a_.row)].lo - a_.ranges[size_t(a_.column)].lo; }
  bool hides() const { return a_.causal && shift() < a_.extent(a_.column); }

  /// Text of an address; the feature counter is "feature".
  std::string at(Address address) const;
  /// Counters of the dimensions that a block of threads has one index of; `tiles` blocks share all of them. Gives the
  /// number of blocks.
  int64_t fixed_dims(const std::vector<int>& summed, int64_t tiles);
  /// What the body of an operator on blocks is, at the row and column at hand.
  std::string expression(ValueId value);
  void define(ValueId value) { add("const float {} = {};", element(value), expression(value)); }
  std::string inside() const {
    return fmt::format("{} < {} && {} < {}", row(), a_.extent(a_.row), column(), a_.extent(a_.column));
  }

  /// Later tiles of a causal attention have more to do: they come first.
  std::string tile_number(int64_t tiles) const;
  /// Where the columns end that some of the tile's rows sees.
  std::string column_stop(int64_t tile_rows);
  /// The tile of rows before which none sees the tile's columns.
  std::string sweep_start(bool keeps_rows, int64_t swept);

  Kernel finish(const std::string& name, int64_t blocks, int threads, int blocks_at_once, const std::string& how) const;

  const KernelContext& context_;
  Nest nest_;
  const FusedAttention& a_;
  std::string name_, index_, comment_;
  std::vector<std::string> dims_;
  Arguments arguments_;
  Lines lines_;
};

/// Among a kernel's tiles, the one of this operand.
const Tile& find_tile(const std::vector<Tile>& tiles, const Tile& wanted);
/// Among a backward kernel's tiles, that of the rows (or columns) of a product of features.
const Tile& tile_of_scores(const Nest& nest, const std::vector<Tile>& tiles, ValueId scores, bool of_rows);

}  // namespace hetsynth::codegen::cuda::attention
