// Mistakes on the command line, said in hetsynth's words: CLI11 has one sentence for each, without a mend.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "dsl/base/error.h"

namespace hetsynth::cli {

/// An option that may be repeated takes one value each time: of `--set a=1 FILE` the file would be a second one
/// otherwise, as CLI11 has it.
void take_one_value_each(CLI::App& app);

/// CLI11 reports an unknown word in place of a command as a missing command; this names the word, and the nearest
/// command. Throws UserError (usage).
void check_command(const CLI::App& app, int argc, char** argv);

/// A shell's variable that is not set leaves an empty word, which would count as if nothing had been named: a run would
/// begin anew, or keep nothing. Throws UserError (usage) for one, and for "--name="; a prompt may be empty.
void check_no_empty_word(const std::vector<std::string>& words);

/// A command's options and arguments, with those of its groups, which CLI11 keeps apart; but for --help.
std::vector<const CLI::Option*> all_options(const CLI::App& command);

/// The long names of a command's options, without dashes.
std::vector<std::string> long_names(const CLI::App& command);

/// The message for what CLI11 refused: which command, what it expects, what was found, the nearest option by name.
UserError usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace hetsynth::cli
