// Mixed precision as a switch of the whole model.
#include <fmt/format.h>

#include "dsl/base/suggest.h"
#include "dsl/include/hetsynth/model.h"
#include "dsl/ir/trace.h"

namespace hetsynth {

namespace {

void set_precision(const std::string& precision, const std::source_location& where) {
  DType type = DType::f32;
  for (const HalfFormat& format : half_formats)
    if (precision == name(format.dtype)) type = format.dtype;
  if (type == DType::f32 && precision != name(DType::f32))
    throw UserError({.where = location(where),
                     .tag = "mixed_precision",
                     .message = "there is no such precision",
                     .expected = "f32, " + half_names(),
                     .found = quote(precision),
                     .mend = "--set precision=bf16, if the model has that option"},
                    ExitCode::usage);
  Trace::current().product_type = type;
}

void require(bool holds, const char* setting, const char* expected, double found, const std::source_location& where) {
  if (holds) return;
  throw UserError({.where = location(where),
                   .tag = "mixed_precision",
                   .message = fmt::format("{} is out of range", setting),
                   .expected = expected,
                   .found = fmt::format("{}", found)});
}

Tensor scalar_state(const char* name, double start, const std::source_location& where) {
  Trace& trace = Trace::current();
  Tensor state = trace.add_leaf(NodeKind::state, name, {{}, DType::f32}, where);
  trace.program.nodes[size_t(state.node())].initializer = {Initializer::Kind::constant, start};
  return state;
}

}  // namespace

void mixed_precision(const std::string& precision, double loss_scale, std::source_location where) {
  set_precision(precision, where);
  require(loss_scale > 0 && loss_scale <= 1e30, "loss_scale", "more than 0, at most 1e30", loss_scale, where);
  Trace::current().loss_scale = loss_scale;
}

void mixed_precision(const std::string& precision, const DynamicLossScale& s, std::source_location where) {
  set_precision(precision, where);
  require(s.initial > 0 && s.initial <= 0x1p126, "initial", "more than 0, at most 2^126", s.initial, where);
  require(s.growth >= 1 && s.growth <= 1e6, "growth", "1 to 1e6", s.growth, where);
  require(s.backoff > 0 && s.backoff < 1, "backoff", "0 < backoff < 1", s.backoff, where);
  require(s.interval >= 1 && s.interval <= 1'000'000, "interval", "1 to 1000000 steps", double(s.interval), where);
  if (precision == "f32") return;
  Tensor scale = scalar_state("loss_scale", s.initial, where);
  Trace::current().dynamic_scale =
      Trace::DynamicScale{scale, scalar_state("loss_scale.good_steps", 0, where), s, where, {}};
}

}  // namespace hetsynth
