// A run whose options stand in a file: `hetsynth run job.toml`.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "dsl/base/output_file.h"

namespace hetsynth::cli {

/// The words of a command line ("run", "job.toml", "--steps", "10") with those of the file in place of its name, if the
/// first word after `run` is a TOML file:
///
///     model = "gpt.cpp"
///     steps = 500
///     data = "train.txt"
///     new-data = true                 # a flag
///     set = { layers = 4, lr = 1e-3 } # or a list: ["layers=4", "lr=1e-3"]
///
/// Keys are the long names of options of `run`. What stands on the command line itself wins. Throws UserError naming
/// file and line for what is no such file.
std::vector<std::string> with_job_file(const CLI::App& app, std::vector<std::string> words);

/// The options that a command was given, as such a file: with it the run can be repeated.
std::string job_file_of(const CLI::App& command);

/// Where the options of a run stand beside its checkpoint.
std::string job_of_checkpoint(const std::string& checkpoint);
extern const OutputKind job_file_kind;

}  // namespace hetsynth::cli
