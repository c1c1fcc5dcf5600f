// The stage `lay out`: in what order a rank stores each value, and which values are mere windows into others.
#pragma once
#include "codegen/passes/access.h"
#include "codegen/passes/local.h"

namespace hetsynth::codegen {

/// How a value lies in memory: element (g0, g1, ...) of the logical tensor is at offset + sum of (g_d - origin_d) *
/// stride_d in its buffer.
struct Layout {
  ValueId buffer = -1;  ///< the value whose storage this is; itself, unless the value is a window into another
  int64_t offset = 0;   ///< elements from the beginning of the buffer
  std::vector<int64_t> origin;
  std::vector<int64_t> strides;
};

struct Layouts {
  std::vector<Layout> of;    ///< by ValueId
  std::vector<bool> window;  ///< by number of the operator: it computes nothing, its result is a window
  Address read(const LocalOp& op, int input) const;  ///< relative to the value's first element
  Address written(const LocalOp& op) const;
};

/// Values are stored row-major unless a transposed order spares a copy; transposes and reshapes become windows where
/// strides can express them.
Layouts lay_out(const LocalProgram& program);

}  // namespace hetsynth::codegen
