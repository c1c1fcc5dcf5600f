#include "dsl/ops/gru_cell.h"

#include <cmath>

#include "dsl/include/hetsynth/model.h"
#include "dsl/ops/gru.h"
#include "dsl/ops/reshape.h"
#include "dsl/ops/support/recurrent.h"

namespace hetsynth {

GruWeights gru_weights(const std::string& name, int64_t inputs, int64_t hidden, std::source_location where) {
  const Init init = uniform(1 / std::sqrt(double(hidden > 0 ? hidden : 1)));
  return {parameter(name + ".input", {inputs, 3, hidden}, init, where),
          parameter(name + ".recurrent", {hidden, 3, hidden}, init, where),
          parameter(name + ".bias", {3, hidden}, init, where),
          parameter(name + ".candidate_bias", {hidden}, init, where)};
}

Tensor gru_cell(Operand x, Tensor h, const GruWeights& w) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x);
  const CellSizes sizes = check_cell("gru_cell", 3, 2, in, w.input, w.recurrent, w.bias, {h});
  // A sequence of one step.
  return reshape(gru(reshape(in, {sizes.batch, 1, sizes.inputs}), w, h), {sizes.batch, sizes.hidden});
}

OperatorInfo gru_cell_info() { return {"gru_cell", "One step of a gated recurrent unit.", {}}; }

}  // namespace hetsynth
