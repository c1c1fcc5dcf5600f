// Text from a trained model: byte after byte from the logits of its forward pass.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "dsl/cluster/cluster.h"
#include "runtime/executor.h"

namespace hetsynth {

struct SampleOptions {
  std::string prompt;        ///< bytes to continue; empty: a newline
  int64_t bytes = 200;       ///< to generate
  double temperature = 0.8;  ///< 0: always the likeliest byte
  uint64_t seed = 0;
};

/// How a forward program reads text and gives logits. Its one text input is [batch, length]; of the batch only the
/// first row is used.
struct TextModel {
  NodeId tokens = -1;
  NodeId logits = -1;
  int64_t length = 0;           ///< of the window
  int64_t classes = 0;          ///< last dimension of the logits
  bool every_position = false;  ///< logits for each position of the window; otherwise only for the byte after it
};

/// Throws UserError naming what is missing if the program (made with restrict_to_output) does not map one text input to
/// logits of it.
TextModel text_model(const Program& forward, const std::string& output = "logits");

/// Continues the prompt by `bytes` bytes. A model with logits at every position is taken as causal: a window not yet
/// full is filled up on the right, where it cannot look. A model of the next byte alone sees short prompts after
/// newlines. Draws by Philox of (seed, position): the same on every machine up to rounding of the logits.
std::string sample_text(Executor& forward, const TextModel& model, const SampleOptions& options);

/// The index a draw `uniform` in [0, 1) picks from softmax(logits / temperature); the first greatest one at temperature
/// 0.
int64_t pick(std::span<const float> logits, double temperature, double uniform);

/// One line of valid ASCII: newlines as \n, other bytes that cannot be printed as \xHH.
std::string printable(std::string_view bytes);

}  // namespace hetsynth
