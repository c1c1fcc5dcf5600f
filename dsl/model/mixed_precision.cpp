// Mixed precision as a switch of the whole model.
#include <fmt/format.h>

#include "dsl/include/hetsynth/model.h"
#include "dsl/ir/trace.h"

namespace hetsynth {

void mixed_precision(const std::string& precision, double loss_scale, std::source_location where) {
  if (precision != "f32" && precision != "bf16")
    throw UserError({.where = location(where),
                     .tag = "mixed_precision",
                     .message = fmt::format("there is no precision \"{}\"", precision),
                     .expected = "f32 or bf16",
                     .mend = "--set precision=bf16, if the model has that option"},
                    ExitCode::usage);
  if (!(loss_scale > 0 && loss_scale <= 1e30))
    throw UserError({.where = location(where),
                     .tag = "mixed_precision",
                     .message = "loss_scale is out of range",
                     .expected = "more than 0, at most 1e30",
                     .found = fmt::format("{}", loss_scale)});
  Trace& trace = Trace::current();
  trace.product_type = precision == "bf16" ? DType::bf16 : DType::f32;
  trace.loss_scale = loss_scale;
}

}  // namespace hetsynth
