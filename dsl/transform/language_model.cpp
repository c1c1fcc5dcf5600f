#include "dsl/transform/language_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "dsl/transform/complete_names.h"

namespace hetsynth {
namespace {

[[noreturn]] void no_language_model(const SourceLocation& where, const std::string& message,
                                    const std::string& expected, const std::string& found, const std::string& mend) {
  throw UserError(
      {.where = where, .tag = "generate", .message = message, .expected = expected, .found = found, .mend = mend});
}

/// Windows of text or tokens, or integers under a name of the model's own.
bool is_window(const Node& input) {
  using Kind = DataSource::Kind;
  const Kind kind = input.data.kind;
  return input.type.dtype == DType::i32 && input.type.shape.size() == 2 &&
         (kind == Kind::text_tokens || kind == Kind::tokens || kind == Kind::named);
}

NodeId window_of(const Program& forward) {
  NodeId found = -1;
  for (const Node& node : forward.nodes) {
    if (node.kind != NodeKind::input) continue;
    if (found >= 0 || !is_window(node))
      no_language_model(node.where, "the logits follow from more than one window of tokens, which a text is",
                        "one input of tokens: text_batch, text_next_byte, token_batch, or i32 [batch, length]",
                        fmt::format("{} : {}{}", node.name, text(node.type),
                                    found >= 0 ? fmt::format(", beside {}", forward[found].name) : ""),
                        "");
    found = node.id;
  }
  if (found < 0)
    no_language_model({forward.model_file}, "the logits do not depend on data", "one input of tokens", "none", "");
  return found;
}

/// The dimension of the logits [batch, length, classes], of the same with further dimensions of extent 1, or with
/// batch and length in one; -1: there are as many rows as samples.
int position_dim_of(const Node& tokens, const Node& logits) {
  const int64_t batch = tokens.type.shape[0], length = tokens.type.shape[1];
  const Shape& shape = logits.type.shape;
  const int64_t rows = shape.empty() || shape.back() < 1 ? 0 : element_count(shape) / shape.back();
  if (rows == batch) return -1;
  int64_t before = 1;
  for (size_t d = 0; d + 1 < shape.size(); ++d) {
    const int64_t after = rows / before / shape[d];
    if (after == 1 && ((before == batch && shape[d] == length) || (before == 1 && shape[d] == batch * length)))
      return int(d);
    before *= shape[d];
  }
  no_language_model(logits.where, "the logits do not fit the window of tokens",
                    fmt::format("[{0}, {1}, classes], or [{0}, classes] of what comes after the window", batch, length),
                    fmt::format("{} : {}", logits.name, text(logits.type)),
                    "mark logits of every position, or of the token after the window");
}

}  // namespace

Program logits_program(const Trace& trace) {
  Program program = trace.program;
  complete_names(program);
  const auto marked = std::ranges::find(program.outputs, logits_output, &NamedOutput::name);
  if (marked == program.outputs.end()) {
    std::string others;
    for (const NamedOutput& output : program.outputs) others += (others.empty() ? "" : ", ") + output.name;
    no_language_model({program.model_file}, "the model does not say what its logits over tokens are",
                      fmt::format("output(\"{}\", x) in model(), where x is what cross_entropy reads", logits_output),
                      others.empty() ? "no output" : "outputs " + others,
                      "add the line: a checkpoint of the model without it can still be loaded");
  }
  return restrict_to_output(program, std::string(logits_output));
}

LanguageModel language_model(const Program& forward) {
  HETSYNTH_CHECK(forward.outputs.size() == 1, "the program gives logits alone");
  LanguageModel model;
  model.logits = forward.outputs.front().node;
  model.tokens = window_of(forward);
  const Node &tokens = forward[model.tokens], &logits = forward[model.logits];
  model.position_dim = position_dim_of(tokens, logits);
  if (logits.type.dtype != DType::f32)
    no_language_model(logits.where, "the logits are no float32", "f32", text(logits.type), "mark to_float(x)");
  model.length = tokens.type.shape[1];
  model.classes = logits.type.shape.back();
  model.bytes = tokens.data.kind == DataSource::Kind::text_tokens;
  model.vocabulary = highest_whole(tokens.data) + 1;
  return model;
}

}  // namespace hetsynth
