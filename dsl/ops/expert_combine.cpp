#include "dsl/ops/expert_combine.h"

#include <fmt/format.h>

#include "dsl/ops/add.h"
#include "dsl/ops/reshape.h"
#include "dsl/ops/support/shape_rules.h"
#include "dsl/ops/support/slot_rows.h"

namespace hetsynth {

Tensor expert_combine(Operand answers, const Routing& routing) {
  CallScope scope(answers.where);
  require_routing("expert_combine", routing, as_tensor(answers));
  Tensor in = as_tensor(answers), out;
  Shape queues = routing.slots.at(0).shape();
  queues.back() = routing.experts;
  queues.push_back(routing.capacity);
  Shape found = in.shape();
  if (in.rank() > 0) found.pop_back();
  if (found != queues || in.dtype() != DType::f32)
    fail_call(
        {.tag = "expert_combine",
         .message = fmt::format("answers do not fit the routing: {} for queues {}", text(in.shape()), text(queues)),
         .expected = fmt::format("float32 features for each of the places {}", text(queues)),
         .found = text(TensorType{in.shape(), in.dtype()})},
        {in});
  Shape table = found;
  table.pop_back();
  table.back() = routing.experts * routing.capacity;
  table.push_back(in.size(-1));
  Tensor rows = reshape(in, table);
  for (size_t i = 0; i < routing.slots.size(); ++i) {
    Tensor part = rows_from_slots(rows, routing.slots[i], routing.weights[i]);
    out = out.defined() ? out + part : part;
  }
  return out;
}

OperatorInfo expert_combine_info() {
  return {"expert_combine", "Answers of experts back to the tokens.", rows_from_slots_samples()};
}

}  // namespace hetsynth
