// Lets programs link until dsl/ops defines these; the strong definitions there win.
#include "dsl/ir/trace.h"

namespace hetsynth {
__attribute__((weak)) Tensor as_tensor(const Operand& operand) {
  if (operand.is_number) throw InternalError("constants come with dsl/ops");
  return operand.tensor;
}
__attribute__((weak)) Tensor accumulate(Tensor, Tensor) { throw InternalError("addition comes with dsl/ops"); }
}  // namespace hetsynth
