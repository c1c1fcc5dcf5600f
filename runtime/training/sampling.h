// The next token, drawn from logits.
#pragma once
#include <cstdint>
#include <span>

namespace hetsynth {

struct SamplingOptions {
  double temperature = 0.8;  ///< logits are divided by it; 0: always the token of the greatest logit
  int64_t top_k = 0;         ///< so many likeliest tokens can be drawn; 0: all can
  /// The likeliest tokens whose probabilities first add up to this can be drawn, at least one (nucleus sampling,
  /// Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration"). It is above 0; at 1 all can. Probabilities
  /// are those of the tokens that top_k left, at the temperature.
  double top_p = 1;
};

/// The index that a draw `uniform` in [0, 1) picks from softmax(logits / temperature), restricted as `options` say and
/// scaled to a sum of 1. Of equal logits the lower index is the likelier one where not all can stay. In float64, from
/// the logits alone: the same on every machine that has the same logits. Throws UserError (ExitCode::failure) if a
/// logit is not finite.
int64_t draw_token(std::span<const float> logits, const SamplingOptions& options, double uniform);

}  // namespace hetsynth
