// How a program reads a window of tokens and gives logits of what comes next.
#pragma once
#include <string>
#include <string_view>

#include "dsl/ir/trace.h"

namespace hetsynth {

/// The name by which a model marks its logits.
inline constexpr std::string_view logits_output = "logits";

struct LanguageModel {
  NodeId tokens = -1;      ///< the one input, i32 [batch, length]
  NodeId logits = -1;      ///< [.., classes], of the output `logits_output`
  int64_t length = 0;      ///< of the window
  int64_t classes = 0;     ///< last dimension of the logits
  int64_t vocabulary = 0;  ///< tokens below it can be read
  /// Dimension of the logits that runs over the window's positions, those of the batch's first sample first; -1: there
  /// are logits for the one token after the window alone.
  int position_dim = -1;
  bool bytes = false;  ///< the input is of text: every byte is a token
};

/// The forward pass that gives the logits, of a traced evaluation (dsl/ir/evaluation.h), which stays as it is. Throws
/// UserError if the model has no output of that name.
Program logits_program(const Trace& trace);

/// Throws UserError naming what is missing if the program (of logits_program) does not map one window of tokens to
/// logits of it.
LanguageModel language_model(const Program& forward);

}  // namespace hetsynth
