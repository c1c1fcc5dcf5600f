// Mixed precision as a switch of the whole model.
#include <fmt/format.h>

#include <algorithm>

#include "dsl/base/suggest.h"
#include "dsl/include/hetsynth/model.h"
#include "dsl/ir/precision_setting.h"
#include "dsl/ir/trace.h"

namespace hetsynth {

namespace {

/// The least that float32 has with all its digits: gradients are divided by the scale.
constexpr double least_scale = 0x1p-126;

void set_precision(const std::string& precision, const std::source_location& where) {
  const std::optional<DType> type = product_type_called(precision);
  if (!type)
    throw UserError({.where = location(where),
                     .tag = "mixed_precision",
                     .message = "there is no such precision",
                     .expected = "f32, " + half_names(),
                     .found = quote(precision),
                     .mend = "--set precision=bf16, if the model has that option"},
                    ExitCode::usage);
  Trace& trace = Trace::current();
  drop_precision_setting(trace);
  const auto late = std::ranges::find_if(trace.program.nodes, [](const Node& node) { return !node.leaf(); });
  if (trace.micro_batch == 0 && late != trace.program.nodes.end())
    throw UserError({.where = location(where),
                     .tag = "mixed_precision",
                     .message = "the precision is set when something was computed already",
                     .expected = "mixed_precision before anything else",
                     .found = fmt::format("{} was computed before", late->name),
                     .mend = "call it first in model()",
                     .notes = {{late->where, "computed here", ""}}});
  if (trace.micro_batch == 0 && (trace.product_type != DType::f32 || trace.dynamic_scale || trace.loss_scale != 1))
    throw UserError({.where = location(where),
                     .tag = "mixed_precision",
                     .message = "the precision is set twice",
                     .expected = "one call of mixed_precision",
                     .found = "a second one",
                     .mend = "leave one of them out"});
  trace.product_type = *type;
}

void require(bool holds, const char* setting, const char* expected, double found, const std::source_location& where) {
  if (holds) return;
  throw UserError({.where = location(where),
                   .tag = "mixed_precision",
                   .message = fmt::format("{} is out of range", setting),
                   .expected = expected,
                   .found = fmt::format("{}", found)});
}

}  // namespace

void mixed_precision(const std::string& precision, double loss_scale, std::source_location where) {
  set_precision(precision, where);
  require(loss_scale >= least_scale && loss_scale <= 1e30, "loss_scale", "2^-126 to 1e30", loss_scale, where);
  Trace::current().loss_scale = loss_scale;
}

void mixed_precision(const std::string& precision, const DynamicLossScale& s, std::source_location where) {
  set_precision(precision, where);
  require(s.initial >= least_scale && s.initial <= 0x1p126, "initial", "2^-126 to 2^126", s.initial, where);
  require(s.growth >= 1 && s.growth <= 1e6, "growth", "1 to 1e6", s.growth, where);
  require(s.backoff > 0 && s.backoff < 1, "backoff", "0 < backoff < 1", s.backoff, where);
  require(s.interval >= 1 && s.interval <= 1'000'000, "interval", "1 to 1000000 steps", double(s.interval), where);
  if (precision == "f32") return;
  follow_gradients(Trace::current(), s, where);
}

}  // namespace hetsynth
