#include "runtime/training/text_generation.h"

#include <fmt/format.h>

#include <algorithm>

#include "dsl/base/error.h"
#include "runtime/rank/interrupt.h"
#include "runtime/rank/throttle.h"

namespace hetsynth {
namespace {

/// What stands where there is no text: it has to be a token of every model.
constexpr int32_t padding_of_bytes = '\n', padding_of_tokens = 0;

int32_t padding(const LanguageModel& model) {
  return model.bytes && model.vocabulary > padding_of_bytes ? padding_of_bytes : padding_of_tokens;
}

/// A window in the first row of the batch and padding elsewhere, and the position in it.
class WindowSource : public BatchSource {
 public:
  WindowSource(const GenerationProgram& program, std::span<const int32_t> window, int64_t position)
      : program_(program), window_(window), position_(static_cast<int32_t>(position)) {}

  void fill(const Node& input, std::span<const Range> ranges, int64_t, std::span<std::byte> out) const override {
    int32_t* values = reinterpret_cast<int32_t*>(out.data());
    if (input.id == program_.position) {
      *values = position_;
      return;
    }
    for_each_run(input.type.shape, ranges, [&](int64_t global, int64_t local, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        const auto at = static_cast<size_t>(global + i);
        values[local + i] = at < window_.size() ? window_[at] : padding(program_.model);
      }
    });
  }
  std::string description() const override { return "a prompt"; }

 private:
  const GenerationProgram& program_;
  std::span<const int32_t> window_;
  int32_t position_;
};

/// Steps of a filling that read a text of so many tokens.
int64_t blocks_of(const TextFilling& filling, int64_t tokens) {
  return (tokens + filling.program->block - 1) / filling.program->block;
}

bool is_faster(const TextFilling& filling, int64_t tokens) {
  return filling.executor && tokens > 0 &&
         double(blocks_of(filling, tokens)) * filling.seconds_of_block < double(tokens) * filling.seconds_of_token;
}

}  // namespace

int64_t window_begin(std::optional<int64_t> begin, int64_t tokens, int64_t length) {
  if (!begin) return std::max<int64_t>(0, tokens - length);
  if (tokens - *begin <= length) return *begin;
  return tokens - std::max<int64_t>(1, length / 2);
}

int64_t tokens_read_ahead(int64_t prompt, int64_t drawn, int64_t length) {
  int64_t begin = window_begin({}, prompt, length), ahead = prompt - 1 - begin;
  while (begin + length + 1 < prompt + drawn) {
    const int64_t count = begin + length + 1;  // as soon as that is too long for the window
    begin = window_begin(begin, count, length);
    ahead += count - 1 - begin;
  }
  return ahead;
}

NextLogits::NextLogits(Executor& executor, const GenerationProgram& program, const TextFilling& filling)
    : executor_(executor), program_(program), filling_(filling) {}

std::vector<float> NextLogits::run(std::span<const int32_t> window, int64_t position, bool wanted) {
  executor_.step(runs_++, WindowSource(program_, window, position));
  if (!wanted) return {};
  const HostTensor logits = executor_.read(program_.logits);
  const std::span<const float> first = logits.as<float>().first(static_cast<size_t>(program_.model.classes));
  return {first.begin(), first.end()};
}

std::optional<std::vector<float>> NextLogits::after(std::span<const int32_t> tokens,
                                                    const std::function<bool()>& stop) {
  const auto count = static_cast<int64_t>(tokens.size());
  const int64_t length = program_.model.length;
  HETSYNTH_CHECK(count > 0, "there is a text to go on with");
  if (program_.model.position_dim < 0) {
    if (stop()) return std::nullopt;
    const int64_t seen = std::min(count, length);
    std::vector<int32_t> window(static_cast<size_t>(length), padding(program_.model));
    std::ranges::copy(tokens.last(static_cast<size_t>(seen)), window.end() - seen);
    return run(window, 0, true);
  }
  const int64_t begin = window_begin(begin_, count, length);
  if (begin_ != begin) read_ = begin;
  begin_ = begin;
  if (program_.reads_window) {
    if (stop()) return std::nullopt;
    return run(tokens.subspan(static_cast<size_t>(begin)), count - 1 - begin, true);
  }
  if (read_ == begin && is_faster(filling_, count - 1 - begin)) {
    if (!fill(tokens.subspan(static_cast<size_t>(begin)), stop)) return std::nullopt;
    read_ = count - 1;
  }
  std::vector<float> logits;
  for (; read_ < count; ++read_) {
    if (stop()) return std::nullopt;
    logits = run(tokens.subspan(static_cast<size_t>(read_), 1), read_ - begin, read_ + 1 == count);
  }
  HETSYNTH_CHECK(!logits.empty(), "the text has grown");
  return logits;
}

bool NextLogits::fill(std::span<const int32_t> window, const std::function<bool()>& stop) {
  const GenerationProgram& program = *filling_.program;
  const auto block = static_cast<size_t>(program.block);
  // What stands behind the text in its last block is padding. It is remembered, too, until a token takes its place, and
  // no token looks at positions behind its own.
  const std::span<const int32_t> text = window.first(window.size() - 1);
  for (int64_t number = 0; number < blocks_of(filling_, static_cast<int64_t>(text.size())); ++number) {
    if (stop()) return false;
    const std::span<const int32_t> rest = text.subspan(static_cast<size_t>(number) * block);
    filling_.executor->step(runs_++, WindowSource(program, rest.first(std::min(block, rest.size())), number));
  }
  filling_.hand_over();
  return true;
}

Generation generate_tokens(Executor& executor, const GenerationProgram& program, std::span<const int32_t> prompt,
                           const GenerationOptions& options, const std::function<void(int32_t)>& each,
                           const TextFilling& filling) {
  constexpr int stream = 0x5A3;  // apart from the streams of dropout, which count from 0
  int64_t drawn_below = std::min(program.model.classes, program.model.vocabulary);
  if (options.drawn_below > 0) drawn_below = std::min(drawn_below, options.drawn_below);
  NextLogits next(executor, program, filling);
  std::vector<int32_t> text(prompt.begin(), prompt.end());
  Generation out;
  const double began = wall_seconds();
  const auto stop = [&] { return executor.anywhere(stop_requested()); };
  for (int64_t i = 0; i < options.tokens && out.complete; ++i) {
    const std::optional<std::vector<float>> logits = next.after(text, stop);
    if (!logits) {
      out.complete = false;
      break;
    }
    const double uniform = philox_uniform(options.seed, stream, static_cast<uint64_t>(i), 0);
    const auto token = static_cast<int32_t>(
        draw_token(std::span(*logits).first(static_cast<size_t>(drawn_below)), options.sampling, uniform));
    if (i == 0) out.prompt_seconds = wall_seconds() - began;
    text.push_back(token);
    out.tokens.push_back(token);
    if (each) each(token);
    if (token == options.end) break;
  }
  out.seconds = wall_seconds() - began - out.prompt_seconds;
  return out;
}

std::string sample_text(Executor& executor, const GenerationProgram& program, const SampleOptions& options) {
  std::vector<int32_t> prompt;
  for (const unsigned char byte : options.prompt) prompt.push_back(byte);
  if (prompt.empty()) prompt.push_back(padding_of_bytes);
  const Generation generated = generate_tokens(executor, program, prompt,
                                               {.tokens = options.bytes,
                                                .sampling = {.temperature = options.temperature},
                                                .seed = options.seed,
                                                .drawn_below = 256});
  return {generated.tokens.begin(), generated.tokens.end()};
}

std::string printable(std::string_view bytes) {
  std::string out;
  for (const unsigned char byte : bytes) {
    if (byte == '\n') {
      out += "\\n";
    } else if (byte == '\\') {
      out += "\\\\";
    } else if (byte < 0x20 || byte >= 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += static_cast<char>(byte);
    }
  }
  return out;
}

}  // namespace hetsynth
