// Whether a model is traced to be trained or to be evaluated.
#pragma once

namespace hetsynth {

class Trace;

/// The setting of a trace, "1", that asks for evaluation: dropout passes on what it reads, batch normalisation uses its
/// running statistics and leaves them as they are, and `differentiate` gives the forward pass alone. It is recorded
/// among the program's options, so that a plan file says which of both it was made for.
inline constexpr const char* evaluation_setting = "evaluation";

/// True if the trace was asked for evaluation.
bool is_evaluation(const Trace& trace);

/// Takes the setting if there is one. Throws UserError if its value is not "1", or beside settings that only training
/// has: several micro-batches or turns, the norm of the gradients, parameters that are frozen.
void take_evaluation_setting(Trace& trace);

}  // namespace hetsynth
