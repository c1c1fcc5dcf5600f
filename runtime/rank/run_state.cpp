#include "runtime/rank/run_state.h"

#include <thread>
#include <utility>

#include "dsl/base/error.h"

namespace hetsynth {

Barrier::Barrier(RunState& state, int members) : state_(state), members_(static_cast<uint32_t>(members)) {
  state.add(this);
}

Barrier::~Barrier() { state_.remove(this); }

void Barrier::wake() {
  phase_.fetch_add(1, std::memory_order_acq_rel);
  phase_.notify_all();
}

bool Barrier::arrive_and_wait(int rank, const std::function<std::string()>& what) {
  if (state_.aborted()) return false;
  state_.arrivals_[static_cast<size_t>(rank)].fetch_add(1, std::memory_order_relaxed);
  const uint32_t phase = phase_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == members_) {
    arrived_.store(0, std::memory_order_relaxed);
    wake();
    return !state_.aborted();
  }
  constexpr int spins = 2000;
  for (int i = 0; state_.spin_ && i < spins; ++i) {
    if (phase_.load(std::memory_order_acquire) != phase) return !state_.aborted();
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  state_.set_waiting(rank, this, phase, what());
  while (phase_.load(std::memory_order_acquire) == phase && !state_.aborted())
    phase_.wait(phase, std::memory_order_acquire);
  state_.set_running(rank);
  return !state_.aborted();
}

RunState::RunState(std::vector<std::string> rank_names)
    : names_(std::move(rank_names)),
      status_(names_.size()),
      arrivals_(names_.size()),
      spin_(names_.size() <= std::thread::hardware_concurrency()) {}

std::string RunState::describe(int rank) const {
  if (rank < 0) return "the run";
  return "rank " + std::to_string(rank) + " (" + names_[static_cast<size_t>(rank)] + ")";
}

void RunState::add(Barrier* barrier) {
  std::lock_guard lock(mutex_);
  barriers_.push_back(barrier);
}

void RunState::remove(Barrier* barrier) {
  std::lock_guard lock(mutex_);
  std::erase(barriers_, barrier);
}

void RunState::begin() {
  std::lock_guard lock(mutex_);
  status_.assign(names_.size(), RankStatus{});
  stopped_ = 0;
}

void RunState::fail(int rank, std::string message, std::exception_ptr cause) {
  std::lock_guard lock(mutex_);
  if (failure_) return;
  failure_ = RankFailure{rank, std::move(message), std::move(cause)};
  aborted_.store(true, std::memory_order_release);
  for (Barrier* barrier : barriers_) barrier->wake();
}

std::optional<RankFailure> RunState::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void RunState::rethrow_failure() const {
  const auto found = failure();
  if (!found) return;
  if (found->cause) {
    try {
      std::rethrow_exception(found->cause);
    } catch (const UserError& error) {
      Diagnostic diagnostic = error.diagnostic();
      if (names_.size() > 1) diagnostic.notes.push_back({{}, describe(found->rank) + " stopped the run with it", ""});
      throw UserError(std::move(diagnostic), error.code());
    } catch (...) {
    }
  }
  throw RunFailed(*found, describe(found->rank) + " failed: " + found->message);
}

RunState::Progress RunState::progress(int rank) const {
  const auto number = static_cast<size_t>(rank);
  std::lock_guard lock(mutex_);
  const RankStatus& status = status_[number];
  return {arrivals_[number].load(std::memory_order_relaxed), status.kind != RankStatus::Kind::running, status.what};
}

void RunState::begin_exchange(int rank, std::string what) {
  const auto number = static_cast<size_t>(rank);
  arrivals_[number].fetch_add(1, std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  status_[number] = RankStatus{RankStatus::Kind::exchanging, nullptr, 0, std::move(what)};
}

void RunState::set_running(int rank) {
  std::lock_guard lock(mutex_);
  RankStatus& status = status_[static_cast<size_t>(rank)];
  if (status.stopped()) --stopped_;
  status = RankStatus{};
}

void RunState::set_finished(int rank) {
  std::unique_lock lock(mutex_);
  RankStatus& status = status_[static_cast<size_t>(rank)];
  if (!status.stopped()) ++stopped_;
  status = RankStatus{RankStatus::Kind::finished, nullptr, 0, ""};
  check_deadlock(lock);
}

void RunState::set_waiting(int rank, const Barrier* barrier, uint32_t phase, std::string what) {
  std::unique_lock lock(mutex_);
  status_[static_cast<size_t>(rank)] = RankStatus{RankStatus::Kind::waiting, barrier, phase, std::move(what)};
  ++stopped_;
  check_deadlock(lock);
}

// A waiting rank whose barrier has moved on has been woken and will run; only if no rank is running and no barrier has
// moved can nothing happen any more.
void RunState::check_deadlock(std::unique_lock<std::mutex>& lock) {
  if (stopped_ < ranks() || failure_) return;
  bool any_waiting = false;
  for (const RankStatus& status : status_) {
    if (status.kind != RankStatus::Kind::waiting) continue;
    any_waiting = true;
    if (status.barrier->phase_.load(std::memory_order_acquire) != status.phase) return;
  }
  if (!any_waiting) return;
  std::string message = "the ranks wait for each other and none can go on:";
  for (int rank = 0; rank < ranks(); ++rank) {
    const RankStatus& status = status_[static_cast<size_t>(rank)];
    message += "\n  " + describe(rank) + ": " +
               (status.kind == RankStatus::Kind::finished ? "has left the step" : "waits in " + status.what);
  }
  lock.unlock();
  fail(-1, std::move(message));
}

}  // namespace hetsynth
