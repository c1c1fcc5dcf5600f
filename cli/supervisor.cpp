#include "cli/supervisor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

#include "cli/command.h"
#include "cli/job_file.h"
#include "cli/newcomers.h"
#include "cli/started_process.h"
#include "dsl/base/counted.h"
#include "dsl/base/new_file.h"
#include "runtime/rank/interrupt.h"
#include "runtime/rank/notice.h"
#include "runtime/training/checkpoint.h"

namespace hetsynth::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Words = std::vector<std::string>;

/// What fails so often before its first checkpoint, as a loss that is not finite, fails for a reason of its own. Hosts
/// that were taken in are given up one failure earlier.
constexpr int most_in_vain = 3;

/// Between two looks at the run, and at files of requests.
constexpr std::chrono::milliseconds between_looks{50};
constexpr std::chrono::seconds between_looks_at_files{1};

volatile sig_atomic_t signals_to_stop = 0;

void count_signal(int) { signals_to_stop = signals_to_stop + 1; }

/// Signals that ask to stop are counted from here on; SIGHUP is not where it is ignored, as under nohup.
void count_signals() {
  signals_to_stop = 0;
  for (const int number : {SIGINT, SIGTERM, SIGHUP})
    if (::signal(number, count_signal) == SIG_IGN && number == SIGHUP) ::signal(number, SIG_IGN);
}

/// Steps that the checkpoint holds; 0 if there is none.
int64_t steps_kept(const std::string& checkpoint) {
  return fs::exists(checkpoint) ? read_checkpoint_info(checkpoint).next_step : 0;
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

/// Tells a file from the one that takes its place.
std::pair<ino_t, int64_t> stamp(const std::string& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return {};
  return {status.st_ino, int64_t(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec};
}

/// Words for `run` that only the first start of a run takes: others go on from its checkpoint.
Words words_to_go_on(const Words& words) {
  Words out;
  bool is_value = false;
  for (const std::string& word : words) {
    const std::string name = word.substr(0, word.find('='));
    const bool begins_a_run = name == "--seed" || name == "--init-from" || name == "--map";
    if (!is_value && !begins_a_run && name != "--new-data") out.push_back(word);
    is_value = begins_a_run && name == word;
  }
  return out;
}

class Supervisor {
 public:
  explicit Supervisor(const ElasticOptions& options)
      : options_(options),
        crew_(crew_of(options.compilation.cluster_file, options.hosts_file, options.compilation.without)),
        newcomers_({options.compilation, options.checkpoint, options.launcher, options.ask_every,
                    [this] { return new_plan_file(); }}),
        first_(steps_kept(options.checkpoint)) {}

  ExitCode run() {
    plan_now();
    while (!asked_to_stop()) {
      const int64_t kept = steps_kept(options_.checkpoint);
      const int code = start();
      const bool kept_more = steps_kept(options_.checkpoint) > kept;
      if (kept_more) on_trial_.clear();
      in_vain_ = kept_more ? 0 : in_vain_ + 1;
      if (code == 0) return ExitCode::done;
      if (asked_to_stop()) return !trains() ? stopped_early : code > 128 ? ExitCode::failure : ExitCode(code);
      // A process that has not come to its first step ends by the signal itself.
      if (stops_ && (code == int(stopped_early) || code == 128 + SIGUSR1)) {
        take_change();
        continue;
      }
      if (code == int(stopped_early)) return stopped_early;
      if (stops_) take_change();  // it failed while it was to stop: what was lost is seen below
      if (!may_go_on(code) && on_trial_.empty()) return ExitCode(code);
      if (!go_on_after_failure(code)) return ExitCode::failure;
    }
    return stopped_early;
  }

 private:
  static bool asked_to_stop() { return signals_to_stop > 0; }

  std::string new_plan_file() { return (folder_.path / fmt::format("plan{}.json", ++plans_)).string(); }

  /// Plans while no run goes on, unless the plan at hand is for these devices.
  void plan_now() {
    if (plan_.devices == hash_of_devices(crew_)) return;
    plan_ = plan_for(options_.compilation, options_.checkpoint, crew_, new_plan_file(), plan_.program, {});
    if (stop_requested()) count_signal(0);  // planning has taken the best plan so far for it
  }

  // A start.

  int start() {
    say(fmt::format("start {} on {}", ++starts_, fmt::join(plan_.hosts, ", ")));
    if (desk_)
      desk_->announce(crew_.hosts(), crew_.cluster_file);
    else
      desk_.emplace(options_.checkpoint, first_notice());
    before_ = stamp(job_of_checkpoint(options_.checkpoint));
    stops_ = false;
    int handed_on = 0;
    StartedProcess run(run_words(), mend_of_launcher);
    for (Clock::time_point looked; !run.code(); std::this_thread::sleep_for(between_looks)) {
      // The first signal lets a run that trains finish its step and write the checkpoint, as a planned change does.
      for (; handed_on < signals_to_stop; ++handed_on)
        if (handed_on > 0 || !stops_) run.send(handed_on == 0 && trains() ? SIGUSR1 : SIGTERM);
      if (asked_to_stop() || stops_ || Clock::now() - looked < between_looks_at_files) continue;
      looked = Clock::now();
      if (trains()) newcomers_.tell_joined(*desk_, joined_at_);
      if (!newcomers_.is_planned()) newcomers_.look_around(*desk_, crew_, plan_);
      if (!newcomers_.is_planned() || !trains() || !newcomers_.take_up(*desk_)) continue;
      stops_ = true;
      run.send(SIGUSR1);
    }
    newcomers_.end();
    return *run.code();
  }

  /// Whether the run has come to its first step: it writes its job file right before.
  bool trains() const { return stamp(job_of_checkpoint(options_.checkpoint)) != before_; }

  ElasticNotice first_notice() const {
    return {.file = {},
            .run = {},
            .version = {},
            .model = options_.compilation.model_options.file,
            .settings = options_.compilation.model_options.settings(),
            .program = plan_.program,
            .cluster_file = crew_.cluster_file,
            .hosts = crew_.hosts(),
            .answers = {}};
  }

  Words run_words() const {
    Words addresses;
    for (const Place& place : crew_.places)
      if (std::ranges::find(plan_.hosts, place.name) != plan_.hosts.end()) addresses.push_back(place.address);
    Words out{options_.launcher.program,
              "-np",
              fmt::format("{}", addresses.size()),
              "--host",
              fmt::format("{}", fmt::join(addresses, ",")),
              fs::read_symlink("/proc/self/exe").string(),
              "run",
              options_.compilation.model_options.file};
    for (const auto& [name, value] : options_.compilation.model_options.settings())
      out.insert(out.end(), {"--set", name + "=" + value});
    out.insert(out.end(), {"--cluster", crew_.cluster_file, "--plan", plan_.file, "--checkpoint", options_.checkpoint,
                           "--checkpoint-every", fmt::format("{}", options_.checkpoint_every)});
    for (const std::string& name : crew_.left_out()) out.insert(out.end(), {"--without", name});
    const int64_t done = steps_kept(options_.checkpoint);
    if (fs::exists(options_.checkpoint)) out.insert(out.end(), {"--resume", options_.checkpoint});
    out.insert(out.end(), {"--steps", fmt::format("{}", std::max<int64_t>(0, first_ + options_.steps - done))});
    const Words more = done > first_ ? words_to_go_on(options_.more) : options_.more;
    out.insert(out.end(), more.begin(), more.end());
    if (options_.json) out.emplace_back("--json");
    return out;
  }

  /// The run has ended for the change that was planned.
  void take_change() {
    Change change = newcomers_.take_change();
    crew_ = std::move(change.crew);
    plan_ = std::move(change.plan);
    on_trial_ = std::move(change.hosts);
    in_vain_ = 0;
    joined_at_ = steps_kept(options_.checkpoint);
    say(fmt::format("the run goes on with {} from step {}", fmt::join(on_trial_, ", "), joined_at_));
  }

  // A failure.

  /// Plans for those that answer; false: it is of no use, which was told.
  bool go_on_after_failure(int code) {
    if (!may_go_on(code) || (in_vain_ == most_in_vain - 1 && !on_trial_.empty())) {
      leave_out_newcomers(code);
      return true;
    }
    if (failures_ == options_.restarts) {
      notice("hetsynth: the run failed again after {}\n", counted(options_.restarts, "restart"));
      return false;
    }
    ++failures_;
    if (in_vain_ == most_in_vain) {
      notice("hetsynth: {} starts in a row failed before they had kept a step\n", in_vain_);
      return false;
    }
    ask_all();
    if (asked_to_stop()) return true;
    if (crew_.hosts().empty())
      throw UserError({.message = "no host of the cluster answers", .mend = "look after the network, or the hosts"},
                      ExitCode::failure);
    const std::string from = fs::exists(options_.checkpoint)
                                 ? fmt::format("from step {}", steps_kept(options_.checkpoint))
                                 : std::string("from the beginning: there is no checkpoint yet");
    say(fmt::format("the run ended with code {}; {}; it goes on {}", code,
                    crew_.lost.empty() ? "all hosts answer" : fmt::format("without {}", fmt::join(crew_.lost, ", ")),
                    from));
    plan_now();
    return true;
  }

  /// Which hosts of the crew are there; those that ask to join are taken in with the same start.
  void ask_all() {
    crew_.lost.clear();
    for (const std::string& host : crew_.hosts())
      if (!answers(options_.launcher, crew_.address(host), asked_to_stop)) crew_.lost.push_back(host);
    const std::vector<std::string> joined = newcomers_.take_all(*desk_, crew_, asked_to_stop);
    on_trial_.insert(on_trial_.end(), joined.begin(), joined.end());
    joined_at_ = steps_kept(options_.checkpoint);
  }

  /// Hosts that were taken in and with which no step was kept.
  void leave_out_newcomers(int code) {
    const std::string message =
        fmt::format("the run did not go on with {}: it ended with code {} before it had kept a step",
                    fmt::join(on_trial_, ", "), code);
    say(message + "; it goes on without");
    newcomers_.tell_left_out(
        *desk_, UserError({.tag = "join", .message = message, .mend = "what the supervisor's run printed tells why"},
                          ExitCode::failure));
    for (const std::string& host : std::exchange(on_trial_, {})) crew_.keep_apart(host);
    in_vain_ = 0;
    plan_now();
  }

  const ElasticOptions& options_;
  const TemporaryFolder folder_;
  Crew crew_;
  PlannedRun plan_;
  std::optional<JoinDesk> desk_;  ///< from the first start on
  Newcomers newcomers_;
  const int64_t first_;  ///< step of the first start
  int starts_ = 0, failures_ = 0, plans_ = 0;
  int in_vain_ = 0;                    ///< starts in a row that kept no further step
  std::vector<std::string> on_trial_;  ///< hosts that were taken in, as long as no step is kept with them
  int64_t joined_at_ = 0;              ///< step from which on they take part
  std::pair<ino_t, int64_t> before_;   ///< stamp of the job file before this start
  bool stops_ = false;                 ///< the run was told to stop for the change that is planned
};

}  // namespace

ExitCode supervise(const ElasticOptions& options) {
  count_signals();
  if (options.json) say_beside();
  return Supervisor(options).run();
}

}  // namespace hetsynth::cli
