#include "cli/newcomers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>

#include "pipeline/report.h"

namespace hetsynth::cli {
namespace {

std::FILE* said_on = stdout;

/// Planning and proving beside a run takes a fourth of a core from ranks that want all of it.
constexpr int nice_beside = 5;

template <class Result>
bool is_ready(const std::future<Result>& future) {
  return future.valid() && future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

/// Adds a host that wants to join to the change. Throws UserError if it does not answer, or is not described.
void take_in(const JoinRequest& request, const Launcher& launcher, const std::function<bool()>& stop, Change& change) {
  Crew crew = with_host(change.crew, request);
  const std::string address = crew.address(request.host);
  if (!answers(launcher, address, stop))
    throw UserError({.tag = "join",
                     .message = "the host that is to join does not answer",
                     .expected = "a process can be started on it, as --alive or the launcher do",
                     .found = fmt::format("{} at the address {}", request.host, address),
                     .mend = "look after the network, or give another --address"},
                    ExitCode::failure);
  change.crew = std::move(crew);
  if (!has(change.hosts, request.host)) change.hosts.push_back(request.host);
}

}  // namespace

void say(const std::string& words) {
  fmt::print(said_on, "elastic: {}\n", words);
  std::fflush(said_on);
}

void say_beside() { said_on = stderr; }

void Newcomers::look_around(JoinDesk& desk, Crew& crew, const PlannedRun& plan) {
  hear(desk);
  ask_lost(crew);
  if (is_ready(next_)) return look_at(desk, crew, plan, next_.get());
  if (next_.valid() || wanted().empty()) return;
  next_ = std::async(std::launch::async, [this, crew, back = back_, waiting = waiting_, file = planning_.new_file(),
                                          program = plan.program] {
    ::setpriority(PRIO_PROCESS, 0, nice_beside);  // of this thread alone, and of those that it starts
    return planned(crew, back, waiting, file, program);
  });
}

/// The hosts that are to be taken in, in order.
std::vector<std::string> Newcomers::wanted() const {
  std::vector<std::string> out = back_;
  for (const Waiting& one : waiting_) out.push_back(one.request.host);
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

void Newcomers::hear(JoinDesk& desk) {
  std::erase_if(waiting_, [&](const Waiting& one) {
    if (one.taken || desk.is_waiting(one.request)) return false;
    say(fmt::format("{} does not ask to join any more", one.request.host));
    return true;
  });
  for (JoinRequest& request : desk.new_requests()) {
    say(fmt::format("{} asks to join", request.host));
    waiting_.push_back({std::move(request)});
  }
}

void Newcomers::ask_lost(const Crew& crew) {
  if (is_ready(asking_)) {
    back_ = asking_.get();
    asked_ = Clock::now();
    for (const std::string& host : back_) say(host + " answers again");
  }
  const bool is_time = Clock::now() - asked_ >= std::chrono::duration<double>(planning_.ask_every);
  if (asking_.valid() || next_.valid() || !back_.empty() || crew.lost.empty() || !is_time) return;
  asking_ = std::async(std::launch::async, [this, crew] {
    std::vector<std::string> out;
    for (const std::string& host : crew.lost)
      if (answers(planning_.launcher, crew.address(host), [this] { return !goes_on_; })) out.push_back(host);
    return out;
  });
}

/// Runs beside, with copies.
Newcomers::Planned Newcomers::planned(Crew crew, const std::vector<std::string>& back,
                                      const std::vector<Waiting>& waiting, const std::string& file,
                                      const std::string& program) const {
  const Clock::time_point began = Clock::now();
  Planned out{
      .change = {.crew = with_hosts(std::move(crew), back), .plan = {}, .hosts = back}, .refused = {}, .failure = {}};
  for (const Waiting& one : waiting) try {
      take_in(
          one.request, planning_.launcher, [this] { return !goes_on_; }, out.change);
    } catch (const UserError& error) {
      out.refused.emplace_back(one.request, error);
    }
  std::ranges::sort(out.change.hosts);
  if (out.change.hosts.empty()) return out;
  try {
    out.change.plan = plan_for(planning_.given, planning_.checkpoint, out.change.crew, file, program,
                               [this] { return goes_on_.load(); });
  } catch (const UserError& error) {
    out.failure = error;
  } catch (const std::exception& error) {
    out.failure = UserError({.tag = "elastic", .message = error.what()}, ExitCode::failure);
  }
  out.seconds = std::chrono::duration<double>(Clock::now() - began).count();
  return out;
}

void Newcomers::look_at(JoinDesk& desk, Crew& crew, const PlannedRun& plan, Planned planned) {
  for (const auto& [request, why] : planned.refused) refuse(desk, request, why);
  const Change& change = planned.change;
  // Others came or went meanwhile: there is one change for all of them.
  if (change.hosts.empty() || change.hosts != wanted()) return;
  if (planned.failure) {
    refuse_all(desk, *planned.failure);
    for (const std::string& host : std::exchange(back_, {})) {
      say(fmt::format("{} is left out: {}", host, planned.failure->diagnostic().message));
      crew.keep_apart(host);
    }
    return;
  }
  const auto is_used = [&](const std::string& host) { return has(change.plan.hosts, host); };
  if (std::ranges::none_of(change.hosts, is_used)) {
    refuse_all(
        desk,
        UserError({.tag = "join",
                   .message = "the fastest plan for the hosts of the run and this one does not use it",
                   .expected = fmt::format("a step of less than {}, as predicted", seconds_text(plan.step_seconds)),
                   .mend = "`hetsynth plan` with the cluster file says what was considered"},
                  ExitCode::infeasible));
    for (const std::string& host : back_)
      say(fmt::format("the fastest plan does not need {}: nothing is changed", host));
    crew = with_hosts(std::move(crew), std::exchange(back_, {}));
    return desk.announce(crew.hosts(), crew.cluster_file);
  }
  say(
      fmt::format("a plan with {} is proved, in {}: {} -> {} a step as predicted; the run goes over to it at its next "
                  "step",
                  fmt::join(change.hosts, ", "), seconds_text(planned.seconds), seconds_text(plan.step_seconds),
                  seconds_text(change.plan.step_seconds)));
  change_ = std::move(planned.change);
  is_planned_ = true;
}

void Newcomers::refuse(JoinDesk& desk, const JoinRequest& request, const UserError& why) {
  const auto one = std::ranges::find_if(waiting_, [&](const Waiting& other) { return other.request.id == request.id; });
  if (one == waiting_.end()) return;
  if (one->taken || desk.take(request)) desk.refuse(request, why);
  waiting_.erase(one);
}

void Newcomers::refuse_all(JoinDesk& desk, const UserError& why) {
  while (!waiting_.empty()) refuse(desk, JoinRequest(waiting_.front().request), why);
}

bool Newcomers::take_up(JoinDesk& desk) {
  for (Waiting& one : waiting_) one.taken = one.taken || desk.take(one.request);
  for (const Waiting& one : waiting_)
    if (!one.taken) say(one.request.host + " does not ask to join any more");
  if (std::erase_if(waiting_, [](const Waiting& one) { return !one.taken; }) == 0) return true;
  is_planned_ = false;
  return false;
}

Change Newcomers::take_change() {
  for (Waiting& one : std::exchange(waiting_, {})) joining_.push_back(std::move(one.request));
  back_.clear();
  is_planned_ = false;
  return std::move(change_);
}

std::vector<std::string> Newcomers::take_all(JoinDesk& desk, Crew& crew, const std::function<bool()>& stop) {
  take_up(desk);
  Change change{.crew = crew, .plan = {}, .hosts = {}};
  // Also those that were to come with the start that failed: they may be lost.
  for (JoinRequest& request : std::exchange(joining_, {})) waiting_.push_back({std::move(request), /*taken=*/true});
  for (Waiting& one : std::exchange(waiting_, {})) try {
      take_in(one.request, planning_.launcher, stop, change);
      joining_.push_back(std::move(one.request));
    } catch (const UserError& error) {
      desk.refuse(one.request, error);
    }
  crew = std::move(change.crew);
  return change.hosts;
}

void Newcomers::end() {
  goes_on_ = false;
  if (asking_.valid()) asking_.get();
  if (next_.valid()) next_.get();
  goes_on_ = true;
  is_planned_ = false;
  back_.clear();
  asked_ = Clock::now();
}

void Newcomers::tell_joined(JoinDesk& desk, int64_t step) {
  for (const JoinRequest& request : std::exchange(joining_, {})) desk.joined(request, step);
}

void Newcomers::tell_left_out(JoinDesk& desk, const UserError& why) {
  for (const JoinRequest& request : std::exchange(joining_, {})) desk.refuse(request, why);
}

}  // namespace hetsynth::cli
