// Text from a trained model: token after token from the logits of its forward pass.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/transform/generation.h"
#include "runtime/executor.h"
#include "runtime/training/sampling.h"

namespace hetsynth {

/// Where the window of a text begins: at its first token, while it fits. A window that is full goes on with the last
/// half of it, so that what was remembered of it is computed anew once in half a window, not for every token. `begin`:
/// where the window began before; none: this is the text's first window, which is as long as it can be.
int64_t window_begin(std::optional<int64_t> begin, int64_t tokens, int64_t length);

/// Tokens that are read before `drawn` tokens are drawn behind a prompt, but for those right after which one is drawn:
/// the prompt's, and those of windows that go on with the last half of a full one.
int64_t tokens_read_ahead(int64_t prompt, int64_t drawn, int64_t length);

/// How a program that reads one token gets a whole text at once: another one (filling_program) reads it in blocks, and
/// what that remembers is handed over.
struct TextFilling {
  Executor* executor = nullptr;  ///< runs `program`; null: texts are read token by token
  const GenerationProgram* program = nullptr;
  std::function<void()> hand_over;                    ///< what was remembered, to the executor that reads tokens
  double seconds_of_block = 0, seconds_of_token = 0;  ///< as planned: each window is read in the faster way
};

/// The logits of what comes after a text that grows. Of several processes all use it alike and get the same.
class NextLogits {
 public:
  /// `executor` runs `program`; all outlive this.
  NextLogits(Executor& executor, const GenerationProgram& program, const TextFilling& filling = {});
  /// Logits after `tokens`: at least one, of which those of the call before are the first. A program that reads one
  /// token runs for every token that it has not read and that no filling reads; `stop` is asked before each run, in all
  /// processes alike, and leaves no logits behind. Of a program without positions, short texts stand behind `padding`.
  std::optional<std::vector<float>> after(std::span<const int32_t> tokens, const std::function<bool()>& stop);
  int64_t runs() const { return runs_; }

 private:
  /// Reads a window but for its last token in blocks. False: it was stopped.
  bool fill(std::span<const int32_t> window, const std::function<bool()>& stop);
  std::vector<float> run(std::span<const int32_t> window, int64_t position, bool wanted);

  Executor& executor_;
  const GenerationProgram& program_;
  const TextFilling filling_;
  std::optional<int64_t> begin_;  ///< of the window
  int64_t read_ = 0;              ///< tokens of the text that the program has read and remembers
  int64_t runs_ = 0;
};

struct GenerationOptions {
  int64_t tokens = 200;  ///< to generate
  SamplingOptions sampling = {};
  uint64_t seed = 0;
  int64_t drawn_below = 0;          ///< tokens from here on are never drawn; 0: all can be
  std::optional<int32_t> end = {};  ///< ends the text when it is drawn
};

struct Generation {
  std::vector<int32_t> tokens;  ///< those that were drawn
  double prompt_seconds = 0;    ///< until the first one was
  double seconds = 0;           ///< from then on
  bool complete = true;         ///< false: a signal ended it early
};

/// Continues the prompt, which has a token at least. Draws by Philox of (seed, number of the token): the same on every
/// machine up to rounding of the logits. Tells `each` of every token as it is drawn. Ends early at a signal (the caller
/// has an InterruptGuard). Of several processes all call it alike and get the same. Throws what Executor::step throws.
Generation generate_tokens(Executor& executor, const GenerationProgram& program, std::span<const int32_t> prompt,
                           const GenerationOptions& options, const std::function<void(int32_t)>& each = {},
                           const TextFilling& filling = {});

struct SampleOptions {
  std::string prompt;        ///< bytes to continue; empty: a newline
  int64_t bytes = 200;       ///< to generate
  double temperature = 0.8;  ///< 0: always the likeliest byte
  uint64_t seed = 0;
};

/// Continues the prompt by `bytes` bytes, of which every one is a token.
std::string sample_text(Executor& executor, const GenerationProgram& program, const SampleOptions& options);

/// One line of valid ASCII: newlines as \n, other bytes that cannot be printed as \xHH.
std::string printable(std::string_view bytes);

}  // namespace hetsynth
