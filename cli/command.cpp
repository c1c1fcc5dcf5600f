#include "cli/command.h"

#include <fmt/format.h>

#include "dsl/transform/turns.h"

namespace hetsynth::cli {

namespace {

CLI::Validator number(std::string wanted, std::function<bool(double)> accepts) {
  return CLI::Validator(
      [wanted, accepts](std::string& text) {
        double value = 0;
        if (CLI::detail::lexical_cast(text, value) && accepts(value)) return std::string();
        return fmt::format("expected {}, found {}", wanted, text);
      },
      "");
}

}  // namespace

CLI::Validator at_least(double least) {
  return number(fmt::format("a number from {}", least), [least](double value) { return value >= least; });
}

CLI::Validator above_zero() {
  return number("a number above 0", [](double value) { return value > 0; });
}

void add_model_options(CLI::App& command, ModelOptions& options) {
  command
      .add_option("model", options.file, "Model file: C++ that includes hetsynth/hetsynth.h and defines void model()")
      ->required();
  command.add_option("--set", options.set, "Set an option of the model: --set layers=12 (repeatable)")
      ->type_name("NAME=VALUE");
  command.add_option("--batch", options.batch, "Samples per step, over all devices: short for --set batch=N")
      ->type_name("N");
  command
      .add_option("--accumulate", options.accumulate,
                  "Batches whose gradients are added up to make one step: N times the samples in the memory of one")
      ->type_name("N");
  command
      .add_option("--precision", options.precision,
                  "Type of the operands of products, in any model: bf16, or fp16 with a loss scale that follows the "
                  "gradients; short for --set precision=TYPE")
      ->type_name("f32|bf16|fp16")
      ->check(CLI::IsMember(std::vector<std::string>{"f32", "bf16", "fp16"}));
  command
      .add_option("--freeze", options.freeze,
                  "Parameters whose names begin with this regular expression are not trained: --freeze \"h[0-9]+\\.\"")
      ->type_name("PATTERN");
  command.add_flag("--gradient-norm", options.gradient_norm,
                   "Tell the norm of all gradients, before they are clipped, beside the loss");
  command
      .add_option("--turns", options.turns,
                  "Turns in which a step is taken, each with an equal part of the batch: the same step in less memory; "
                  "3+1: four, the last apart, beside which gradients are summed over devices")
      ->type_name("N|N+1")
      ->check(CLI::Validator(
          [](const std::string& text) {
            if (turn_count(text)) return std::string();
            return fmt::format("expected a number from 1, or such a number and \"+1\", found {}", text);
          },
          ""));
}

}  // namespace hetsynth::cli
