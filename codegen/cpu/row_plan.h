// How values travel inside a kernel: in variables, through row buffers, or back through memory.
#pragma once
#include <vector>

#include "codegen/text/kernel.h"

namespace hetsynth::codegen {

/// How a member's value reaches its readers.
struct Travel {
  bool local = false;     ///< a variable, read in the same pass or row
  bool buffered = false;  ///< a row buffer
  bool reloaded = false;  ///< read back from where it is stored
  bool terms = false;     ///< a reduction that writes its summands to a buffer first
};

struct RowPlan {
  std::vector<Travel> travel;  ///< by member
  bool single = false;         ///< no loops: single values, computed in double
  bool chunked = false;        ///< the row is passed over once, a chunk at a time
  bool long_counter = false;   ///< indices inside of the row do not fit an int
};

/// Elements of a chunk: its buffers stay in the first-level cache.
constexpr int64_t chunk_elements = 4096;

RowPlan plan_row(const Kernel& kernel);

/// A scatter adds to a looked-up element of its result.
bool scatters(const KernelMember& member);
/// A reduction that collapses the row to one value.
bool reduces_row(const KernelMember& member);
/// Whether the member's value belongs to a pass over the row, not to the row as a whole.
bool runs_in_pass(const KernelMember& member);
/// Whether the position a one-hot member looks up changes inside of the row.
bool lookup_varies(const Kernel& kernel, const KernelMember& member);

}  // namespace hetsynth::codegen
