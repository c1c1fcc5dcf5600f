// Programs that continue a text: what a language model computes for one token more.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "dsl/transform/language_model.h"

namespace hetsynth {

/// A program whose output `logits_output` has, in its first row, the logits of the token after one position of the
/// window; or one that reads a block of several positions and gives no logits. Inputs are by their names in `program`.
struct GenerationProgram {
  Program program;
  NodeId tokens = -1;  ///< i32 [batch, length] of the whole window, or [batch, block] of the block
  /// i32 [], the block's number, 0 to length / block - 1; -1: the logits are of the token after the window.
  NodeId position = -1;
  NodeId logits = -1;                   ///< -1: there are none
  int64_t block = 1;                    ///< positions that it computes
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

/// Reads `block` tokens at once, more than one, and remembers what remembering_program does of them, in states of the
/// same names. It is computed of the blocks 0, 1, .. in turn, and gives no logits: a prompt is read by it, but for the
/// token after which logits are wanted. Only where there is a remembering_program, and the blocks divide the window
/// evenly.
GenerationProgram filling_program(const Program& forward, int64_t block);

/// How many tokens a filling program is to read at once: the largest divisor of the window's length up to
/// `largest_filling_block`; 1 if there is none, and then there is no such program.
int64_t filling_block(int64_t length);
inline constexpr int64_t largest_filling_block = 64;

}  // namespace hetsynth
