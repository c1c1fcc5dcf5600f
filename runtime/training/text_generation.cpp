#include "runtime/training/text_generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "dsl/base/error.h"

namespace hetsynth {
namespace {

constexpr unsigned char padding = '\n';

[[noreturn]] void cannot_sample(const std::string& message, const std::string& expected, const std::string& found) {
  throw UserError(
      {{}, "sample", message, expected, found, "mark the logits of a text model with output(\"logits\", ...)"},
      ExitCode::failure);
}

/// One window in the first row of the batch, padding elsewhere.
class WindowSource : public BatchSource {
 public:
  explicit WindowSource(std::vector<unsigned char> window) : window_(std::move(window)) {}

  void fill(const Node& input, std::span<const Range> ranges, int64_t, std::span<std::byte> out) const override {
    int32_t* tokens = reinterpret_cast<int32_t*>(out.data());
    for_each_run(input.type.shape, ranges, [&](int64_t global, int64_t local, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        const auto at = static_cast<size_t>(global + i);
        tokens[local + i] = at < window_.size() ? window_[at] : padding;
      }
    });
  }
  std::string description() const override { return "a prompt"; }

 private:
  std::vector<unsigned char> window_;
};

}  // namespace

TextModel text_model(const Program& forward, const std::string& output) {
  TextModel model;
  for (const NamedOutput& named : forward.outputs) {
    if (named.name == output) model.logits = named.node;
  }
  if (model.logits < 0) cannot_sample("the model has no output \"" + output + "\"", "", "");
  for (const Node& node : forward.nodes) {
    if (node.kind != NodeKind::input) continue;
    if (node.data.kind != DataSource::Kind::text_tokens || model.tokens >= 0) {
      cannot_sample("only models whose logits follow from one window of text can be sampled", "one input of text",
                    node.name);
    }
    model.tokens = node.id;
  }
  if (model.tokens < 0) cannot_sample("the model's logits do not depend on text", "one input of text", "none");
  const Shape& tokens = forward[model.tokens].type.shape;
  const Shape& logits = forward[model.logits].type.shape;
  if (tokens.size() != 2 || logits.empty())
    cannot_sample("the text input is no batch of windows", "[batch, length]", text(tokens));
  model.length = tokens[1];
  model.classes = logits.back();
  const int64_t rows = model.classes > 0 ? element_count(logits) / model.classes : 0;
  model.every_position = rows == tokens[0] * tokens[1];
  if (!model.every_position && rows != tokens[0]) {
    cannot_sample("the logits do not fit the text", fmt::format("{} or {} rows", tokens[0], tokens[0] * tokens[1]),
                  text(logits));
  }
  return model;
}

int64_t pick(std::span<const float> logits, double temperature, double uniform) {
  const auto greatest = std::ranges::max_element(logits);
  if (temperature <= 0) return greatest - logits.begin();
  const auto weight = [&](float logit) { return std::exp((logit - *greatest) / temperature); };
  double total = 0;
  for (const float logit : logits) total += weight(logit);
  double left = uniform * total;
  for (size_t i = 0; i < logits.size(); ++i) {
    left -= weight(logits[i]);
    if (left < 0) return static_cast<int64_t>(i);
  }
  return greatest - logits.begin();  // rounding left a crumb
}

std::string sample_text(Executor& forward, const TextModel& model, const SampleOptions& options) {
  constexpr int stream = 0x5A3;  // apart from the streams of dropout, which count from 0
  std::string text = options.prompt.empty() ? std::string(1, static_cast<char>(padding)) : options.prompt;
  const size_t start = text.size();
  for (int64_t i = 0; i < options.bytes; ++i) {
    const auto length = static_cast<size_t>(model.length);
    const std::string seen = text.substr(text.size() - std::min(text.size(), length));
    std::vector<unsigned char> window(seen.begin(), seen.end());
    const size_t position = model.every_position ? window.size() - 1 : 0;
    if (!model.every_position) window.insert(window.begin(), length - window.size(), padding);
    forward.step(i, WindowSource(std::move(window)));
    const HostTensor logits = forward.read(model.logits);
    const auto row =
        logits.as<float>().subspan(position * static_cast<size_t>(model.classes), static_cast<size_t>(model.classes));
    const double uniform = philox_uniform(options.seed, stream, static_cast<uint64_t>(i), 0);
    text += static_cast<char>(pick(row, options.temperature, uniform));
  }
  return text.substr(start);
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
