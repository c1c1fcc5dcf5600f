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
#include "pipeline/model_options.h"

namespace hetsynth::cli {

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
Command add_join(CLI::App& app);
Command add_probe(CLI::App& app);
Command add_doctor(CLI::App& app);
Command add_tokenize(CLI::App& app);

}  // namespace hetsynth::cli
