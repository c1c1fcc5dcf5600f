// hetsynth elastic: starts a run on the hosts of a cluster, and starts it again without those that were lost.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <thread>

#include "cli/pipeline_options.h"
#include "dsl/base/counted.h"
#include "dsl/base/file.h"
#include "dsl/base/new_file.h"
#include "pipeline/pipeline.h"
#include "runtime/rank/notice.h"
#include "runtime/training/checkpoint.h"

extern char** environ;

namespace hetsynth::cli {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

/// A host that does not answer for so long is lost.
constexpr std::chrono::seconds answer_within{20};

/// What fails so often before its first checkpoint, as a loss that is not finite, fails for a reason of its own.
constexpr int most_in_vain = 3;

struct ElasticOptions {
  CompilationInput compilation;
  std::string hosts_file, checkpoint, alive_command;
  int64_t steps = 600, checkpoint_every = 50;
  int restarts = 10;
  bool resume = false;
  std::string launcher = "mpirun";
  Words more;  ///< for `run`
};

/// A host of the cluster file, and what the launcher knows it by.
struct Place {
  std::string name, address;
};

volatile sig_atomic_t child = 0;  ///< what signals are handed on to
volatile sig_atomic_t asked_to_stop = 0;

void hand_on(int number) {
  asked_to_stop = 1;
  if (child > 0) ::kill(child, number);
}

/// The exit code of a command, 128 and the number of the signal that ended it, or 124 where it took longer than it may.
int run_command(const Words& words, std::chrono::seconds limit = {}) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = -1;
  if (const int error = ::posix_spawnp(&pid, arguments[0], nullptr, nullptr, arguments.data(), environ); error != 0)
    throw UserError({.message = fmt::format("{} cannot be started: {}", words.front(), std::strerror(error)),
                     .mend = "install Open MPI, or name the launcher with --launcher"},
                    ExitCode::failure);
  const auto deadline = std::chrono::steady_clock::now() + limit;
  const bool limited = limit.count() > 0;
  if (!limited) child = pid;
  int status = 0;
  while (true) {
    const pid_t ended = ::waitpid(pid, &status, limited ? WNOHANG : 0);
    if (ended == pid) break;
    if (ended < 0 && errno != EINTR) return 1;
    if (!limited) continue;
    if (std::chrono::steady_clock::now() > deadline) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, &status, 0);
      return 124;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (!limited) child = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Hosts in the order of the cluster file, with the addresses of the hosts' file, one on a line.
std::vector<Place> places(const ElasticOptions& options) {
  const Cluster cluster = load_cluster(options.compilation.cluster_file);
  std::vector<Place> out;
  for (const Host& host : cluster.hosts) out.push_back({host.name, host.name});
  if (options.hosts_file.empty()) return out;
  std::istringstream file(read_file(options.hosts_file, "hosts file", int64_t(1) << 20));
  std::vector<std::string> addresses;
  for (std::string line; std::getline(file, line);) {
    const std::string word = line.substr(0, line.find_first_of(" \t#"));
    if (!word.empty()) addresses.push_back(word);
  }
  if (addresses.size() != out.size())
    throw UserError({.where = {options.hosts_file},
                     .tag = "hosts",
                     .message = "the file has to name each host of the cluster file, in the same order",
                     .expected = counted(int64_t(out.size()), "line"),
                     .found = counted(int64_t(addresses.size()), "line"),
                     .mend = "write one address on a line"});
  for (size_t i = 0; i < out.size(); ++i) out[i].address = addresses[i];
  return out;
}

bool answers(const ElasticOptions& options, const Place& place) {
  if (!options.alive_command.empty()) {
    std::string command = options.alive_command;
    for (size_t at = 0; (at = command.find("{}", at)) != std::string::npos; at += place.address.size())
      command.replace(at, 2, place.address);
    return run_command({"sh", "-c", command}, answer_within) == 0;
  }
  return run_command({options.launcher, "-np", "1", "--host", place.address, "true"}, answer_within) == 0;
}

/// Plans for all hosts but those that were lost. The plan file, and the hosts it uses, in order.
std::vector<std::string> plan_for(const ElasticOptions& options, const std::vector<std::string>& lost,
                                  const std::string& plan_file) {
  Compilation c;
  static_cast<CompilationInput&>(c) = options.compilation;
  c.without = lost;
  run_pipeline(c, "synthesize", {});
  check_checkpoint_target(options.checkpoint, c.reference);
  save_plan(plan_file, c.plan, c.reference);
  std::vector<std::string> out;
  for (const Device& device : c.cluster.devices)
    if (const std::string& host = c.cluster.hosts[size_t(device.host)].name; out.empty() || out.back() != host)
      out.push_back(host);
  return out;
}

/// Steps that the checkpoint holds; 0 if there is none.
int64_t steps_kept(const std::string& checkpoint) {
  return fs::exists(checkpoint) ? read_checkpoint_info(checkpoint).next_step : 0;
}

Words run_words(const ElasticOptions& options, const std::vector<Place>& all, const std::vector<std::string>& used,
                const std::vector<std::string>& lost, const std::string& plan_file, int64_t last_step) {
  std::vector<std::string> addresses;
  for (const Place& place : all)
    if (std::ranges::find(used, place.name) != used.end()) addresses.push_back(place.address);
  Words out{options.launcher,
            "-np",
            fmt::format("{}", addresses.size()),
            "--host",
            fmt::format("{}", fmt::join(addresses, ",")),
            fs::read_symlink("/proc/self/exe").string(),
            "run",
            options.compilation.model_options.file};
  for (const auto& [name, value] : options.compilation.model_options.settings())
    out.insert(out.end(), {"--set", name + "=" + value});
  out.insert(out.end(), {"--cluster", options.compilation.cluster_file, "--plan", plan_file, "--checkpoint",
                         options.checkpoint, "--checkpoint-every", fmt::format("{}", options.checkpoint_every)});
  for (const std::string& host : lost) out.insert(out.end(), {"--without", host});
  const int64_t done = steps_kept(options.checkpoint);
  if (fs::exists(options.checkpoint)) out.insert(out.end(), {"--resume", options.checkpoint});
  out.insert(out.end(), {"--steps", fmt::format("{}", std::max<int64_t>(0, last_step - done))});
  out.insert(out.end(), options.more.begin(), options.more.end());
  return out;
}

/// A failure that another start may mend; all others are the user's to mend.
bool may_go_on(int code) { return code == int(ExitCode::failure) || code > 128; }

/// A folder that is gone at the end.
struct TemporaryFolder {
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  const fs::path path = make_temporary_folder("hetsynth_elastic_");
};

ExitCode supervise(const ElasticOptions& options) {
  const std::vector<Place> all = places(options);
  if (fs::exists(options.checkpoint) && !options.resume)
    throw UserError({.where = {options.checkpoint},
                     .tag = "checkpoint",
                     .message = "a run that starts anew would go on from this checkpoint",
                     .mend = "give --resume to go on from it, or name another file"},
                    ExitCode::usage);
  const int64_t first = steps_kept(options.checkpoint);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::signal(number, hand_on);
  const TemporaryFolder folder;
  const std::string plan_file = (folder.path / "plan.json").string();
  std::vector<std::string> lost;
  int in_vain = 0;  // starts in a row that kept no further step
  for (int start = 0;; ++start) {
    const int64_t kept = steps_kept(options.checkpoint);
    const std::vector<std::string> used = plan_for(options, lost, plan_file);
    fmt::print("elastic: start {} on {}\n", start + 1, fmt::join(used, ", "));
    std::fflush(stdout);
    const int code = run_command(run_words(options, all, used, lost, plan_file, first + options.steps));
    if (!may_go_on(code) || asked_to_stop) return ExitCode(code > 128 ? int(ExitCode::failure) : code);
    if (start == options.restarts) {
      notice("hetsynth: the run failed again after {}\n", counted(options.restarts, "restart"));
      return ExitCode::failure;
    }
    in_vain = steps_kept(options.checkpoint) > kept ? 0 : in_vain + 1;
    if (in_vain == most_in_vain) {
      notice("hetsynth: {} starts in a row failed before they had kept a step\n", in_vain);
      return ExitCode::failure;
    }
    lost.clear();
    for (const Place& place : all)
      if (!answers(options, place)) lost.push_back(place.name);
    if (lost.size() == all.size())
      throw UserError({.message = "no host of the cluster answers", .mend = "look after the network, or the hosts"},
                      ExitCode::failure);
    const std::string from = fs::exists(options.checkpoint)
                                 ? fmt::format("from step {}", steps_kept(options.checkpoint))
                                 : std::string("from the beginning: there is no checkpoint yet");
    fmt::print("elastic: the run ended with code {}; {}; it goes on {}\n", code,
               lost.empty() ? "all hosts answer" : fmt::format("without {}", fmt::join(lost, ", ")), from);
  }
}

}  // namespace

Command add_elastic(CLI::App& app) {
  auto options = std::make_shared<ElasticOptions>();
  CLI::App* command = app.add_subcommand(
      "elastic",
      "Train on the hosts of a cluster under mpirun, and go on from the last checkpoint without those that are lost; "
      "words after -- are for hetsynth run");
  add_model_options(*command, options->compilation.model_options);
  command->add_option("--cluster", options->compilation.cluster_file, "Cluster file (TOML)")->required();
  command
      ->add_option("--hosts", options->hosts_file,
                   "Addresses of the cluster's hosts, one on a line in the order of the file; default: their names")
      ->type_name("FILE");
  add_planning_options(*command, options->compilation);
  command->add_option("--steps", options->steps, "Training steps in all")->capture_default_str()->check(at_least(0));
  command->add_option("--checkpoint", options->checkpoint, "Where all hosts find the checkpoint")
      ->type_name("FILE")
      ->required();
  command->add_option("--checkpoint-every", options->checkpoint_every, "Steps between two checkpoints")
      ->capture_default_str()
      ->check(at_least(1));
  command->add_flag("--resume", options->resume, "Go on from the checkpoint that is there");
  command->add_option("--restarts", options->restarts, "How often to start again")
      ->capture_default_str()
      ->check(at_least(0));
  command
      ->add_option("--alive", options->alive_command,
                   "Shell command that succeeds if the host {} is there; default: starts a process on it")
      ->type_name("COMMAND");
  command->add_option("--launcher", options->launcher, "The program that starts processes")->capture_default_str();
  command->add_option("more", options->more, "Words for hetsynth run, after --");
  return [options]() { return supervise(*options); };
}

}  // namespace hetsynth::cli
