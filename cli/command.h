// What the commands of the command line share: options, the model's settings, exit codes.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dsl/base/error.h"

namespace hetsynth::cli {

/// Options that decide which program a model file stands for.
struct ModelOptions {
  std::string file;
  std::vector<std::string> set;       ///< "name=value"
  std::optional<int64_t> batch;       ///< --batch N is --set batch=N
  std::optional<int64_t> accumulate;  ///< --accumulate N is --set micro_batches=N
  std::optional<std::string> turns;   ///< --turns N is --set turns=N
  std::optional<std::string> freeze;  ///< --freeze PATTERN is --set freeze=PATTERN

  /// The settings as a map. Throws UserError (usage) for an entry without "=".
  std::map<std::string, std::string> settings() const;
};

/// Check of a number on the command line, "expected a number from 1, found -3"; CLI11's own names the largest double.
CLI::Validator at_least(double least);
CLI::Validator above_zero();

void add_model_options(CLI::App& command, ModelOptions& options);

/// A run that a signal ended before its last step: its checkpoint is written, but it is not done (docs/errors.md).
constexpr ExitCode stopped_early{7};

/// A command registers itself with its options; the function it returns runs it and gives the exit code.
using Command = std::function<ExitCode()>;
Command add_run(CLI::App& app);
Command add_plan(CLI::App& app);
Command add_verify(CLI::App& app);
Command add_inspect(CLI::App& app);
Command add_explain(CLI::App& app);
Command add_diff(CLI::App& app);
Command add_checkpoint(CLI::App& app);
Command add_history(CLI::App& app);
Command add_evaluate(CLI::App& app);
Command add_generate(CLI::App& app);
Command add_export(CLI::App& app);
Command add_elastic(CLI::App& app);
Command add_probe(CLI::App& app);
Command add_doctor(CLI::App& app);
Command add_tokenize(CLI::App& app);

}  // namespace hetsynth::cli
