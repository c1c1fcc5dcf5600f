// The type that products are computed in, asked for from outside of a model.
#pragma once
#include <optional>
#include <source_location>
#include <string_view>

#include "dsl/include/hetsynth/loss_scale.h"
#include "dsl/ir/type.h"

namespace hetsynth {

class Trace;

/// The type of the operands of products that is called so: f32, bf16 or fp16. Nothing for other words.
std::optional<DType> product_type_called(std::string_view word);

/// Gives the trace a loss scale that follows the gradients: its states, and the rule for them.
void follow_gradients(Trace& trace, const DynamicLossScale& rule, const std::source_location& where);

/// The setting of a trace that is an option of the model where that asks for one of this name. Of all other models it
/// has the products computed in that type (`mixed_precision` in model.h), those between fp16 operands with a
/// DynamicLossScale.
inline constexpr const char* precision_setting = "precision";

/// Before the model is traced. A value that is no type of products is left to the model.
void take_precision_setting(Trace& trace);
/// The model says itself which type that is. Throws UserError if products were computed in the other one before.
void drop_precision_setting(Trace& trace);
/// When the model is traced: records the setting, and makes the state of the loss scale.
void settle_precision_setting(Trace& trace);

}  // namespace hetsynth
