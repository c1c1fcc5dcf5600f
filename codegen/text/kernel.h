// A group ready to be printed: its loops merged where memory allows, and every read and write as an address over loop
// counters.
#pragma once
#include <optional>
#include <vector>

#include "codegen/passes/lower.h"

namespace hetsynth::codegen {

/// A pointer the kernel takes: the first element of a stored value. Reads and writes through one pointer share it.
struct Parameter {
  ValueId value = -1;  ///< whose storage it is
  DType dtype = DType::f32;
  bool written = false;
};

/// An index that must lie in [0, extent) for a read to be more than 0.
struct Guard {
  Address index;
  int64_t extent;
  bool below, above;  ///< which side can be left
};

/// Counters of addresses: the kernel's loops, then the member's looked-up position.
struct KernelRead {
  int parameter = -1;  ///< -1: computed by member `source`
  int source = -1;
  Address address;
  std::vector<Guard> guards;
  bool always_zero = false;  ///< outside of the operand wherever the kernel looks
  bool picks = false;        ///< another element than the one at this point: the one at the looked-up position
};

struct KernelMember {
  const LocalOp* op = nullptr;
  Role role = Role::element;
  int level = 0;
  bool over_inner = false;
  bool reduces_inner = false;  ///< accumulate: the innermost loop is reduced before memory is touched
  bool whole = false;          ///< accumulate: the result is a single element
  int64_t result_count = 0;    ///< elements of the local result
  DType dtype = DType::f32;    ///< of the result
  std::vector<int> counter;    ///< per factor of the operator: loop, loops.size() if looked up, -1 for a single value
  std::vector<KernelRead> reads;
  int stored = -1;  ///< parameter its result goes to
  Address store;
  std::optional<Address> random_index;  ///< global row-major index of the output element, for random draws
};

struct Kernel {
  std::vector<Loop> loops;
  std::vector<Parameter> parameters;
  std::vector<KernelMember> members;
  int passes = 0;
  bool uses_step = false, uses_seed = false, uses_turn = false;
  int inner() const { return int(loops.size()) - 1; }
  bool nothing_to_do() const;  ///< no row to run over and nothing to fill
  bool no_rows() const;        ///< some loop over rows, or the only loop, is empty
};

Kernel make_kernel(const Lowered& lowered, const Group& group);

}  // namespace hetsynth::codegen
