#include "dsl/ops/expert_dispatch.h"

#include <fmt/format.h>

#include "dsl/ops/add.h"
#include "dsl/ops/reshape.h"
#include "dsl/ops/support/shape_rules.h"
#include "dsl/ops/support/slot_rows.h"

namespace hetsynth {

Tensor expert_dispatch(Operand tokens, const Routing& routing) {
  CallScope scope(tokens.where);
  require_routing("expert_dispatch", routing, as_tensor(tokens));
  Tensor rows = as_tensor(tokens), out;
  Shape positions = routing.slots.at(0).shape(), expected = rows.shape();
  if (rows.rank() > 0) expected.pop_back();
  if (rows.rank() < 2 || expected != positions || rows.dtype() != DType::f32)
    fail_call({.tag = "expert_dispatch",
               .message = fmt::format("tokens do not fit the routing: {} for {}", text(rows.shape()), text(positions)),
               .expected = fmt::format("float32 features for each of the tokens {} that the gate saw", text(positions)),
               .found = text(TensorType{rows.shape(), rows.dtype()})},
              {rows});
  for (Tensor slots : routing.slots) {
    Tensor part = rows_to_slots(rows, slots, {}, routing.experts * routing.capacity);
    out = out.defined() ? out + part : part;
  }
  Shape queues = expected;
  queues.back() = routing.experts;
  queues.push_back(routing.capacity);
  queues.push_back(rows.size(-1));
  return reshape(out, queues);
}

OperatorInfo expert_dispatch_info() {
  return {"expert_dispatch", "Tokens to the queues of their experts.", rows_to_slots_samples()};
}

}  // namespace hetsynth
