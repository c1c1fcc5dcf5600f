// Kernels that copy between a tensor and its pieces in the order in which these travel.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda/kernels/kernel_writer.h"
#include "codegen/text/annotate.h"

namespace hetsynth::codegen::cuda {
namespace {

/// Prints one copy; every thread takes an element at a time.
class PieceCopyPrinter {
 public:
  PieceCopyPrinter(const PieceCopy& copy, const PieceCopyNames& names) : copy_(copy), names_(names) {}

  Kernel print(const std::string& type) {
    if (copy_.parts.empty())
      over_the_whole();
    else
      over_the_packed();
    Kernel kernel;
    kernel.name = names_.kernel;
    kernel.blocks = blocks_for(total_, usual_threads);
    kernel.text = kernel_head(comment(), kernel.name, kernel.threads, parameters(type)) + lines_.text() + "}\n";
    return kernel;
  }

 private:
  std::string comment() const {
    if (!copy_.parts.empty())
      return fmt::format("// packs {}: rows for others, rank by rank, a row for each of those who want it\n",
                         names_.source);
    if (copy_.own >= 0)
      return fmt::format("// unpacks {}: {} and, around it, rows of others, which lie one share after the other\n",
                         names_.destination, names_.own);
    return fmt::format("// {} {}: shares one after the other {} the whole tensor\n", copy_.pack ? "packs" : "unpacks",
                       copy_.pack ? names_.source : names_.destination, copy_.pack ? "from" : "to");
  }

  std::string parameters(const std::string& type) const {
    const std::string own = copy_.own >= 0 ? fmt::format("const {}* __restrict__ {}, ", type, names_.own) : "";
    return fmt::format("const {0}* __restrict__ {1}, {3}{0}* __restrict__ {2}", type, names_.source, names_.destination,
                       own);
  }

  void open_loop(int64_t total) {
    total_ = total;
    lines_.open(fmt::format(
        "for (long long at = (long long)blockIdx.x * {0} + threadIdx.x; at < {1}; at += (long long)gridDim.x * {0}) {{",
        usual_threads, total));
  }

  void declare_piece() {
    lines_.add(
        "long long start = 0, first = 0, last = 0;  // of the piece: where it begins in the packed order, and its part "
        "of the dimension");
  }

  void choose_piece(const char* counter, int64_t below, int64_t start, const Range& part) {
    lines_.add(fmt::format("{}if ({} < {}) start = {}, first = {}, last = {};", chosen_ ? "else " : "", counter, below,
                           start, part.lo, part.hi));
    chosen_ = true;
  }

  /// Pieces that are the whole dimension together.
  void over_the_whole() {
    const int64_t extent = copy_.bounds.back(), inner = copy_.inner;
    open_loop(copy_.outer * extent * inner);
    lines_.add(fmt::format("const long long row = at / {}, column = at / {} % {}, lane = at % {};", extent * inner,
                           inner, extent, inner));
    declare_piece();
    int64_t begin = 0;
    for (size_t p = 0; p + 1 < copy_.bounds.size(); ++p) {
      const Range part{copy_.bounds[p], copy_.bounds[p + 1]};
      const bool own = int(p) == copy_.own;
      if (part.lo < part.hi)
        choose_piece("column", part.hi, own ? 0 : copy_.piece_stride ? int64_t(p) * copy_.piece_stride : begin, part);
      if (!own) begin += copy_.outer * (part.hi - part.lo) * inner;
    }
    lines_.add(
        fmt::format("const long long packed = start + (row * (last - first) + column - first) * {} + lane;", inner));
    if (copy_.own >= 0)
      lines_.add(fmt::format("{}[at] = {} ? {}[packed] : {}[packed];", names_.destination, in_own_part(), names_.own,
                             names_.source));
    else if (copy_.pack)
      lines_.add(fmt::format("{}[packed] = {}[at];", names_.destination, names_.source));
    else
      lines_.add(fmt::format("{}[at] = {}[packed];", names_.destination, names_.source));
    lines_.close();
  }

  std::string in_own_part() const {
    const int64_t lo = copy_.bounds[size_t(copy_.own)], hi = copy_.bounds[size_t(copy_.own) + 1];
    if (lo == 0) return fmt::format("column < {}", hi);
    if (hi == copy_.bounds.back()) return fmt::format("column >= {}", lo);
    return fmt::format("column >= {} && column < {}", lo, hi);
  }

  /// Pieces that may overlap and leave gaps.
  void over_the_packed() {
    const int64_t inner = copy_.inner;
    int64_t total = 0;
    for (const Range& part : copy_.parts) total += copy_.outer * (part.hi - part.lo) * inner;
    open_loop(total);
    declare_piece();
    int64_t begin = 0;
    for (const Range& part : copy_.parts) {
      const int64_t end = begin + copy_.outer * (part.hi - part.lo) * inner;
      if (begin < end) choose_piece("at", end, begin, part);
      begin = end;
    }
    lines_.add(
        fmt::format("const long long row = (at - start) / ((last - first) * {}), lane = at % {};", inner, inner));
    lines_.add(fmt::format("const long long column = first + (at - start) / {} % (last - first);", inner));
    lines_.add(fmt::format("{}[at] = {}[(row * {} + column) * {} + lane];", names_.destination, names_.source,
                           copy_.extent, inner));
    lines_.close();
  }

  const PieceCopy& copy_;
  const PieceCopyNames& names_;
  Lines lines_{1};
  int64_t total_ = 0;
  bool chosen_ = false;
};

}  // namespace

Kernel piece_copy_kernel(const PieceCopy& copy, DType dtype, const ElementTypes& types, const PieceCopyNames& names) {
  return PieceCopyPrinter(copy, names).print(types.memory_text(dtype));
}

}  // namespace hetsynth::codegen::cuda
