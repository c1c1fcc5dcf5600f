#include "dsl/ops/roll.h"

#include "dsl/ir/trace.h"
#include "dsl/ops/concat.h"
#include "dsl/ops/slice.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {

Tensor roll(Operand x, int64_t shift, int dim) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x);
  int at = checked_call({in}, [&] { return normalize_dim("roll", dim, in.shape()); });
  int64_t extent = in.size(at), by = ((shift % extent) + extent) % extent;
  if (by == 0) return in;
  return concat({slice(in, at, extent - by, extent), slice(in, at, 0, extent - by)}, at);
}

OperatorInfo roll_info() { return {"roll", "A dimension moved around.", {}}; }

}  // namespace hetsynth
