#include "dsl/ir/precision_setting.h"

#include <fmt/format.h>

#include <utility>

#include "dsl/ir/trace.h"

namespace hetsynth {
namespace {

Tensor scalar_state(Trace& trace, const char* name, double start, const std::source_location& where) {
  Tensor state = trace.add_leaf(NodeKind::state, name, {{}, DType::f32}, where);
  trace.program.nodes[size_t(state.node())].initializer = {Initializer::Kind::constant, start};
  return state;
}

}  // namespace

std::optional<DType> product_type_called(std::string_view word) {
  if (word == name(DType::f32)) return DType::f32;
  for (const HalfFormat& format : half_formats)
    if (word == name(format.dtype)) return format.dtype;
  return std::nullopt;
}

void follow_gradients(Trace& trace, const DynamicLossScale& rule, const std::source_location& where) {
  Tensor scale = scalar_state(trace, "loss_scale", rule.initial, where);
  trace.dynamic_scale =
      Trace::DynamicScale{scale, scalar_state(trace, "loss_scale.good_steps", 0, where), rule, where, {}};
}

void take_precision_setting(Trace& trace) {
  const auto setting = trace.settings.find(precision_setting);
  if (setting == trace.settings.end()) return;
  const std::optional<DType> type = product_type_called(setting->second);
  trace.precision_by_setting = type.has_value();
  trace.product_type = type.value_or(DType::f32);
}

void drop_precision_setting(Trace& trace) {
  if (!trace.precision_by_setting || trace.micro_batch > 0) return;
  if (trace.first_cast_operand >= 0)
    throw UserError({.where = trace.program[trace.first_cast_operand].where,
                     .tag = precision_setting,
                     .message = fmt::format("products were computed in {} when the model asks for its precision",
                                            name(trace.product_type)),
                     .expected = "option(\"precision\", ...) or mixed_precision before the first product",
                     .found = "this product was computed before",
                     .mend = "ask for it first in model()"},
                    ExitCode::usage);
  trace.product_type = DType::f32;
  trace.precision_by_setting = false;
}

void settle_precision_setting(Trace& trace) {
  if (!trace.precision_by_setting) return;
  trace.settings_used.insert(precision_setting);
  trace.program.options.push_back(
      {precision_setting, trace.settings.at(precision_setting), "type of the operands of products"});
  if (trace.product_type != DType::fp16 || trace.minimized.empty()) return;
  // Made as the optimizer's states are: no other micro-batch asks for them again.
  const Phase phase = std::exchange(trace.phase, Phase::update);
  follow_gradients(trace, DynamicLossScale{}, trace.minimized.front().where);
  trace.phase = phase;
}

}  // namespace hetsynth
