// The next token, drawn from logits.
#pragma once
#include <cstdint>
#include <span>

namespace hetsynth {

struct SamplingOptions {
  double temperature = 0.8;  ///< logits are divided by it; 0: always the token of the greatest logit
  int64_t top_k = 0;         ///< of so many likeliest tokens alone; 0: of all
  /// Of the likeliest tokens alone whose probabilities first add up to this (nucleus sampling, Holtzman et al. 2020,
  /// "The Curious Case of Neural Text Degeneration"), at least one; above 0, and 1: of all. Probabilities are those of
  /// the tokens that top_k left, at the temperature.
  double top_p = 1;
};

/// The index that a draw `uniform` in [0, 1) picks from softmax(logits / temperature), restricted as `options` say and
/// scaled to a sum of 1. Of equal logits the lower index is the likelier one where not all can stay. In float64, from
/// the logits alone: the same on every machine that has the same logits. Throws UserError (ExitCode::failure) if a
/// logit is not finite.
int64_t draw_token(std::span<const float> logits, const SamplingOptions& options, double uniform);

}  // namespace hetsynth
