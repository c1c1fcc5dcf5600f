#include "synth/support/budget.h"

#include <algorithm>

namespace hetsynth::synth {
namespace {

constexpr double seconds_between_reports = 0.1;

}  // namespace

bool Budget::spent() {
  if (spent_) return true;
  progress_.elapsed_seconds = std::chrono::duration<double>(Clock::now() - started_).count();
  if (limit_seconds_ && progress_.elapsed_seconds >= *limit_seconds_) spent_ = true;
  if ((progress_.best_seconds || gives_up_) && work_ >= most_work(effort_)) spent_ = true;
  if (progress_.elapsed_seconds - told_seconds_ >= seconds_between_reports) tell();
  return spent_;
}

double Budget::part_spent() {
  if (spent()) return 1;
  return limited() ? progress_.elapsed_seconds / *limit_seconds_ : 0;
}

void Budget::found(double step_seconds, double bound_seconds) {
  if (!told_of_steps_ || (progress_.best_seconds && *progress_.best_seconds <= step_seconds)) return;
  progress_.best_seconds = step_seconds;
  progress_.bound_seconds = bound_seconds;
  tell();
}

void Budget::run(const char* strategy, const std::function<Picoseconds()>& best, const std::function<void()>& work) {
  const Picoseconds before = best();
  const int64_t searches = progress_.searches, spent_before = work_;
  const Clock::time_point start = Clock::now();
  work();
  const Picoseconds after = best();
  auto record = std::ranges::find(strategies_, strategy, &StrategyRecord::name);
  if (record == strategies_.end()) record = strategies_.insert(record, {.name = strategy});
  ++record->runs;
  record->seconds += std::chrono::duration<double>(Clock::now() - start).count();
  record->searches += progress_.searches - searches;
  record->work += work_ - spent_before;
  record->improved += after < before;
  if (after < before && before < forbidden) record->gained += to_seconds(before - after);
}

void Budget::tell() {
  told_seconds_ = progress_.elapsed_seconds;
  if (listener_ && !listener_(progress_)) spent_ = true;
}

}  // namespace hetsynth::synth
