// Programs that continue a text: what a language model computes for one token more.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "dsl/transform/language_model.h"

namespace hetsynth {

/// A program whose output `logits_output` has, in its first row, the logits of the token after one position of the
/// window. Inputs are by their names in `program`.
struct GenerationProgram {
  Program program;
  NodeId tokens = -1;    ///< i32 [batch, length] of the whole window, or [batch, 1] at the position
  NodeId position = -1;  ///< i32 [], 0 to length - 1; -1: the logits are of the token after the window
  NodeId logits = -1;
  std::vector<NodeId> remembered = {};  ///< states: keys and values of the positions before
  LanguageModel model;                  ///< of the forward pass that it was made of; nodes are those of that pass
  bool reads_window = true;             ///< false: one token
};

/// Reads the whole window for every token. What stands behind the position does not count, as far as the model is
/// causal. Nothing is computed of positions that no attention looks at: the last block and the logits are computed for
/// one. `forward`: of logits_program. Throws UserError as language_model.
GenerationProgram window_program(const Program& forward);

/// Reads one token at its position, and remembers what later ones need: keys and values of causal attention, as states
/// that are updated. They are computed of positions 0, 1, .. in turn; a new text begins at 0 again, and what is
/// remembered beyond the position does not count. Over the reals the logits are those of window_program.
///
/// Every tensor between tokens and logits has to be computed position by position, from what the operators' spaces say,
/// but for causal attention (dsl/ir/attention.h), in which a query sees keys and values up to its own position. Where a
/// tensor is not, `reason` says which one, and there is no program.
struct RememberingProgram {
  std::optional<GenerationProgram> program;
  std::string reason = {};  ///< "scores (model.cpp:12) reads other positions of keys"
};
RememberingProgram remembering_program(const Program& forward);

}  // namespace hetsynth
