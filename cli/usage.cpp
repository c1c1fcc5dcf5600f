#include "cli/usage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/base/suggest.h"

namespace hetsynth::cli {
namespace {

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

/// The command that was being read when CLI11 gave up; none before the first.
const CLI::App* command_at_fault(const CLI::App& app) {
  for (const CLI::App* command : app.get_subcommands({}))
    if (command->parsed() || command->count() > 0) return command;
  return nullptr;
}

/// "hetsynth diff MODEL PLAN OTHER": the words that the command cannot do without.
std::string synopsis(const CLI::App& command) {
  std::string out = "hetsynth " + command.get_name();
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_required()) continue;
    std::string name = option->get_single_name();
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return char(std::toupper(c)); });
    out += option->get_positional() ? " " + name : fmt::format(" --{} {}", option->get_single_name(), name);
  }
  return out;
}

/// Whether the first of the words that are left is a second setting behind one --set: --set a=1 b=2.
bool is_setting(const CLI::App& command, const std::vector<std::string>& left) {
  const CLI::Option* set = command.get_option_no_throw("--set");
  return set && set->count() > 0 && !left.empty() && !left.front().starts_with("-") &&
         left.front().find('=') != std::string::npos;
}

/// Whether words are left over because the shell made many names of a pattern.
bool is_expanded_pattern(const CLI::App& command, const std::vector<std::string>& left) {
  std::error_code error;
  const bool of_data = std::ranges::any_of(std::vector<std::string>{"--data", "--valid"}, [&](const std::string& name) {
    const CLI::Option* option = command.get_option_no_throw(name);
    return option && option->count() > 0;
  });
  return of_data && !left.empty() && std::filesystem::exists(left.front(), error);
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names = long_names(command);
  for (std::string& name : names) name.insert(0, "--");
  return names;
}

}  // namespace

std::vector<const CLI::Option*> all_options(const CLI::App& command) {
  std::vector<const CLI::Option*> out =
      command.get_options([&](const CLI::Option* option) { return option != command.get_help_ptr(); });
  for (const CLI::App* group : command.get_subcommands({})) {
    if (!group->get_name().empty()) continue;
    const std::vector<const CLI::Option*> more = all_options(*group);
    out.insert(out.end(), more.begin(), more.end());
  }
  return out;
}

std::vector<std::string> long_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : all_options(command))
    names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
  return names;
}

void take_one_value_each(CLI::App& app) {
  for (CLI::Option* option : app.get_options({}))
    if (!option->get_positional()) option->allow_extra_args(false);
  for (CLI::App* command : app.get_subcommands({})) take_one_value_each(*command);
}

void check_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  const std::vector<std::string> known = command_names(app);
  if (std::find(known.begin(), known.end(), argv[1]) != known.end()) return;
  throw UserError({.message = "there is no such command",
                   .expected = fmt::format("one of: {}", fmt::join(known, ", ")),
                   .found = argv[1],
                   .mend = did_you_mean(argv[1], known, "hetsynth --help lists the commands")},
                  ExitCode::usage);
}

void check_no_empty_word(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const std::string before = i > 0 ? words[i - 1] : "";
    const bool is_option = word.starts_with("--") && word.find('=') + 1 == word.size();
    if ((!word.empty() && !is_option) || before == "--prompt" || word == "--prompt=") continue;
    const bool of_option = word.empty() && before.starts_with("-");
    const std::string name = is_option ? word.substr(0, word.size() - 1) : of_option ? before : "an argument";
    throw UserError(
        {.message = name + " is empty",
         .expected = "a value",
         .mend = is_option || of_option ? "leave the option out for its default; is a variable of the shell not set?"
                                        : "leave it out; is a variable of the shell not set?"},
        ExitCode::usage);
  }
}

UserError usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* command = command_at_fault(app);
  if (!command)
    return UserError({.message = "a command is missing",
                      .expected = fmt::format("one of: {}", fmt::join(command_names(app), ", ")),
                      .mend = "hetsynth --help says what each does"},
                     ExitCode::usage);
  Diagnostic diagnostic{.tag = command->get_name(),
                        .message = error.what(),
                        .mend = fmt::format("hetsynth {} --help lists its options", command->get_name())};
  if (dynamic_cast<const CLI::RequiredError*>(&error)) diagnostic.expected = synopsis(*command);
  if (dynamic_cast<const CLI::ExtrasError*>(&error)) {
    const std::vector<std::string> left = command->remaining();
    diagnostic.message = "there is no such option or argument";
    diagnostic.found = fmt::format("{}", fmt::join(left, " "));
    if (is_setting(*command, left))
      diagnostic.mend = "--set takes one setting each time: --set " + left.front();
    else if (is_expanded_pattern(*command, left))
      diagnostic.mend =
          "--data takes one name: put a pattern of several files into quotation marks, as the shell "
          "expands it otherwise";
    else if (!left.empty())
      diagnostic.mend = did_you_mean(left.front(), option_names(*command), diagnostic.mend);
  }
  return UserError(std::move(diagnostic), ExitCode::usage);
}

}  // namespace hetsynth::cli
