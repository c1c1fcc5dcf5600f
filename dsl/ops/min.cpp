#include "dsl/ops/min.h"

#include "dsl/ops/max.h"
#include "dsl/ops/neg.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {

Tensor min(Operand x, DimList dims, bool keepdim) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x);
  checked_call({in}, [&] {
    require_dtype("min", 0, {in.shape(), in.dtype()}, DType::f32);
    normalize_dims("min", dims.dims, in.shape());
  });
  return -max(-in, dims, keepdim);
}

OperatorInfo min_info() { return {"min", "Minimum over dimensions.", {}}; }

}  // namespace hetsynth
