// The command line: parses, runs one command, turns errors into messages and exit codes.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/job_command.h"
#include "cli/job_file.h"
#include "cli/usage.h"
#include "dsl/base/version.h"
#include "pipeline/failure.h"
#include "runtime/rank/notice.h"
#include "runtime/rank/openmp.h"
#include "runtime/rank/run_state.h"

namespace hetsynth::cli {
namespace {

/// An internal fault leaves the command line and what failed on disk, so that it can be reported and run again.
void write_repro(int argc, char** argv, const std::string& fault) {
  std::string path = "hetsynth-fault.txt";
  std::string command;
  for (int i = 0; i < argc; ++i) command += fmt::format("{}'{}'", i ? " " : "", argv[i]);
  std::ofstream(path, std::ios::app) << "hetsynth " << tool_version_and_commit() << "\ncommand: " << command
                                     << "\nfault: " << fault << "\n\n";
  notice(
      "hetsynth: internal fault: {}\n  this is a mistake in hetsynth, not in your files; the command and the "
      "fault were added to {}\n",
      fault, path);
}

UserError unwritten(const std::string& reason) {
  return UserError({.message = "the results cannot be written to standard output: " + reason,
                    .mend = "is the disk full, or has what reads them ended?"},
                   ExitCode::failure);
}

/// Results that did not reach their reader are a failure, whatever else went well.
void require_written() {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && !std::ferror(stdout) && std::cout) return;
  throw unwritten(std::strerror(errno));
}

int run(int argc, char** argv) {
  CLI::App app{
      "Trains a model written for one device across unequal devices: synthesizes, proves, generates, compiles and runs "
      "the program of each."};
  app.name("hetsynth");
  app.set_version_flag("--version", tool_version_and_commit());
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done, 1 failure at run time, 2 usage, 3 invalid input file, 4 infeasible, 5 refuted, 6 unknown "
      "(not proved), 7 stopped early by a signal.");
  std::vector<std::pair<CLI::App*, Command>> commands;
  for (auto add :
       {add_run, add_plan, add_verify, add_inspect, add_explain, add_diff, add_evaluate, add_generate, add_checkpoint,
        add_export, add_history, add_elastic, add_join, add_probe, add_doctor, add_tokenize}) {
    size_t before = app.get_subcommands({}).size();
    Command command = add(app);
    commands.emplace_back(app.get_subcommands({})[before], std::move(command));
  }
  take_one_value_each(app);
  check_command(app, argc, argv);
  try {
    std::vector<std::string> words = with_job_file(app, {argv + 1, argv + argc});
    check_no_empty_word(words);
    std::ranges::reverse(words);  // as CLI11 wants them
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help and --version
      const int code = app.exit(error);
      require_written();
      return code;
    }
    throw usage_error(app, error);
  }
  for (auto& [subcommand, command] : commands)
    if (subcommand->parsed()) {
      const ExitCode code = command();
      require_written();
      return int(code);
    }
  return int(ExitCode::usage);
}

/// The number of a closed stream would go to the next file that is opened, which would then get the words meant for the
/// stream. Standard output is left so that nothing can be written to it, which is told of; standard error is dropped.
void open_closed_streams() {
  for (const auto& [number, flags] :
       {std::pair{STDIN_FILENO, O_RDONLY}, {STDOUT_FILENO, O_RDONLY}, {STDERR_FILENO, O_WRONLY}})
    if (::fcntl(number, F_GETFD) < 0) (void)::open("/dev/null", flags);
}

}  // namespace
}  // namespace hetsynth::cli

int main(int argc, char** argv) {
  using namespace hetsynth;
  cli::open_closed_streams();
  constexpr std::string_view commands_that_compute[] = {"run", "probe", "verify", "evaluate", "generate"};
  if (argc > 1 &&
      std::ranges::find(commands_that_compute, std::string_view(argv[1])) != std::end(commands_that_compute))
    wait_passively(argv);
  try {
    try {
      return cli::run(argc, argv);
    } catch (const std::system_error& error) {
      // The printing functions throw it as soon as a buffer cannot be emptied.
      if (std::ferror(stdout)) throw cli::unwritten(error.code().message());
      throw;
    }
  } catch (const UserError& error) {
    const Failure failure = failure_of(error);
    notice("{}\n", failure.text);
    return int(failure.code);
  } catch (const RunFailed& error) {
    notice("{}\n", failure_of(error).text);
    return int(ExitCode::failure);
  } catch (const std::exception& error) {
    cli::write_repro(argc, argv, error.what());
    return int(ExitCode::failure);
  }
}
