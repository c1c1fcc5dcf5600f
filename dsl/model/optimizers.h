// The optimizers' part of the training step, as operators appended to the current trace.
#pragma once
#include <source_location>
#include <string>
#include <vector>

#include "dsl/include/hetsynth/model.h"

namespace hetsynth {

/// The parameter of which a tensor of this name would be a state: "w1" of "w1.m". Empty: it is named as none.
std::string parameter_of_state(const std::string& name);

/// New parameters and states from the gradients: adds the states (zero at the start) and the updates of all.
void take_step(const AdamW& o, const std::vector<Tensor>& parameters, const std::vector<Tensor>& gradients,
               const std::source_location& where);
void take_step(const Adam& o, const std::vector<Tensor>& parameters, const std::vector<Tensor>& gradients,
               const std::source_location& where);
void take_step(const LAMB& o, const std::vector<Tensor>& parameters, const std::vector<Tensor>& gradients,
               const std::source_location& where);
void take_step(const Adafactor& o, const std::vector<Tensor>& parameters, const std::vector<Tensor>& gradients,
               const std::source_location& where);
void take_step(const SGD& o, const std::vector<Tensor>& parameters, const std::vector<Tensor>& gradients,
               const std::source_location& where);

}  // namespace hetsynth
