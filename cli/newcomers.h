// Hosts that a run which goes on is to take in: those that ask to join, and those that were lost and answer again. What
// they change is planned and proved beside the run.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/crew.h"
#include "cli/join_desk.h"

namespace hetsynth::cli {

/// A change that was planned beside the run.
struct Change {
  Crew crew;
  PlannedRun plan;
  std::vector<std::string> hosts;  ///< that are taken in
};

/// Prints a line of the supervisor's: on standard output, or on standard error from `say_beside` on, where standard
/// output is for the records of the runs.
void say(const std::string& words);
void say_beside();

class Newcomers {
 public:
  /// How planning is asked for, and where its files go.
  struct Planning {
    const CompilationInput& given;
    const std::string& checkpoint;
    const Launcher& launcher;
    double ask_every;  ///< seconds between two questions whether a lost host is back
    std::function<std::string()> new_file;
  };
  explicit Newcomers(Planning planning) : planning_(std::move(planning)) {}
  ~Newcomers() { end(); }
  Newcomers(const Newcomers&) = delete;
  Newcomers& operator=(const Newcomers&) = delete;

  /// To be called now and then while a run goes on under `plan`. Hosts that answer again but are not needed, and those
  /// for which there is no plan, are noted in the crew.
  void look_around(JoinDesk& desk, Crew& crew, const PlannedRun& plan);
  bool is_planned() const { return is_planned_; }
  /// From here on requests are not withdrawn. False: one was before, and all is planned anew.
  bool take_up(JoinDesk& desk);
  /// The change that is planned; those who asked for it get their answer later.
  Change take_change();
  /// After a failure: adds hosts that ask to join and answer to the crew, without a plan. Returns their names.
  std::vector<std::string> take_all(JoinDesk& desk, Crew& crew, const std::function<bool()>& stop);
  /// What is planned beside is of no use any more. Lost hosts were just asked.
  void end();

  // Answers to those whose requests were taken up.
  void tell_joined(JoinDesk& desk, int64_t step);
  void tell_left_out(JoinDesk& desk, const UserError& why);

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    JoinRequest request;
    bool taken = false;  ///< it can no longer be withdrawn
  };
  struct Planned {
    Change change;
    std::vector<std::pair<JoinRequest, UserError>> refused;
    std::optional<UserError> failure;
    double seconds = 0;
  };

  std::vector<std::string> wanted() const;
  void hear(JoinDesk& desk);
  void ask_lost(const Crew& crew);
  Planned planned(Crew crew, const std::vector<std::string>& back, const std::vector<Waiting>& waiting,
                  const std::string& file, const std::string& program) const;
  void look_at(JoinDesk& desk, Crew& crew, const PlannedRun& plan, Planned planned);
  void refuse(JoinDesk& desk, const JoinRequest& request, const UserError& why);
  void refuse_all(JoinDesk& desk, const UserError& why);

  const Planning planning_;
  std::vector<Waiting> waiting_;      ///< requests that nothing was decided on
  std::vector<JoinRequest> joining_;  ///< those whose hosts come with the next start, until it trains
  std::vector<std::string> back_;     ///< lost hosts that answer again
  Clock::time_point asked_;           ///< whether lost hosts are back
  std::atomic<bool> goes_on_ = true;  ///< what is done beside is still of use
  bool is_planned_ = false;
  Change change_;
  std::future<std::vector<std::string>> asking_;
  std::future<Planned> next_;
};

}  // namespace hetsynth::cli
