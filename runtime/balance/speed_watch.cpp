#include "runtime/balance/speed_watch.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/rank/median.h"

namespace hetsynth {
namespace {

/// What a mean and a deviation are learnt from before anything is compared with them.
constexpr int first_values = 3;
/// Deviations by less than that of a logarithm, 3 per cent, are nobody's business.
constexpr double least_deviation = 0.03;
/// A deviation counts as no more than so many standard deviations: a single step that takes ten times as long as others
/// is one bad step.
constexpr double most_deviations = 3;
/// A sum takes what a deviation has above half of the change that is to be found soonest, which is one of two standard
/// deviations.
constexpr double allowance = 1;
/// The sum at which a change is told of. Normal deviations reach it once in e^(2 (h + 1.166)) / 2 = 6 million steps
/// (D. Siegmund, Sequential analysis, 1985).
constexpr double decision = 7;

/// Student's t of `freedom` degrees as the normal deviate of the same probability (D. L. Wallace, 1959).
double as_normal(double t, double freedom) {
  const double scale = (8 * freedom + 1) / (8 * freedom + 3);
  return std::copysign(scale * std::sqrt(freedom * std::log1p(t * t / freedom)), t);
}

/// The level after a change is the median of so many values at most.
constexpr size_t recent_values = 5;

/// Adds to a sum that does not fall below 0, and keeps the last values since it was there.
void accumulate(double& sum, std::vector<double>& since, double excess, double value) {
  sum = std::max(0.0, sum + excess);
  if (sum == 0)
    since.clear();
  else
    since.push_back(value);
  if (since.size() > recent_values) since.erase(since.begin());
}

}  // namespace

double ControlChart::level() const { return std::exp(mean_); }

void ControlChart::learn(double value) {
  ++count_;
  const double before = value - mean_;
  mean_ += before / count_;
  squares_ += before * (value - mean_);
}

bool ControlChart::add(double value) {
  const double x = std::log(value);
  if (count_ < first_values) {
    learn(x);
    return false;
  }
  const double freedom = count_ - 1;
  const double deviation = std::max(least_deviation, std::sqrt(squares_ / freedom));
  const double t = (x - mean_) / (deviation * std::sqrt(1 + 1.0 / count_));
  const double u = std::clamp(as_normal(t, freedom), -most_deviations, most_deviations);
  accumulate(up_, since_up_, u - allowance, x);
  accumulate(down_, since_down_, -u - allowance, x);
  if (std::max(up_, down_) <= decision) {
    // Far values are learnt from as if they were nearer, so that a change does not hide itself.
    learn(std::clamp(x, mean_ - most_deviations * deviation, mean_ + most_deviations * deviation));
    return false;
  }
  const std::vector<double> since = up_ > down_ ? since_up_ : since_down_;
  *this = {};
  // All at their median: what the first step of a change took is some of both levels.
  const double now = median(since);
  for (size_t i = 0; i < since.size(); ++i) learn(now);
  squares_ = freedom > 0 ? deviation * deviation * double(since.size()) : 0;
  return true;
}

SpeedWatch::SpeedWatch(std::vector<double> planned) : planned_(std::move(planned)), charts_(planned_.size()) {}

std::vector<SpeedWatch::Change> SpeedWatch::add(const std::vector<double>& seconds) {
  std::vector<Change> out;
  for (size_t rank = 0; rank < charts_.size(); ++rank) {
    if (planned_[rank] <= 0 || seconds[rank] <= 0) continue;
    const double before = charts_[rank].level();
    if (charts_[rank].add(seconds[rank] / planned_[rank])) out.push_back({int(rank), before, charts_[rank].level()});
  }
  return out;
}

std::vector<double> SpeedWatch::slowness() const {
  std::vector<double> out;
  for (const ControlChart& chart : charts_) out.push_back(chart.level());
  return out;
}

int SpeedWatch::settled_steps() const {
  int out = -1;
  for (size_t rank = 0; rank < charts_.size(); ++rank)
    if (planned_[rank] > 0 && (out < 0 || charts_[rank].count() < out)) out = charts_[rank].count();
  return std::max(out, 0);
}

}  // namespace hetsynth
