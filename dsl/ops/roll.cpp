#include "dsl/ops/roll.h"

#include <fmt/format.h>

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

Tensor roll(Operand x, const std::vector<int64_t>& shifts, const DimList& dims) {
  CallScope scope(x.where);
  Tensor out = as_tensor(x);
  checked_call({out}, [&] { return normalize_dims("roll", dims.dims, out.shape()); });
  if (shifts.size() != dims.dims.size())
    fail_call({.tag = "roll",
               .message = "there are not as many shifts as dimensions",
               .expected = fmt::format("{} shifts", dims.dims.size()),
               .found = std::to_string(shifts.size())},
              {out});
  for (size_t i = 0; i < shifts.size(); ++i) out = roll(out, shifts[i], dims.dims[i]);
  return out;
}

OperatorInfo roll_info() { return {"roll", "Dimensions moved around.", {}}; }

}  // namespace hetsynth
