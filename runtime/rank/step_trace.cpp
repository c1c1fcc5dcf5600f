#include "runtime/rank/step_trace.h"

#include <algorithm>
#include <utility>

#include "runtime/rank/throttle.h"

namespace hetsynth {

void StepTrace::begin() {
  own_.clear();
  own_.reserve(most_);
  beside_.clear();
  place_ = {};
  began_ = marked_ = wall_seconds();
}

void StepTrace::data_are_there() {
  const double now = wall_seconds();
  own_.push_back({TraceSpan::Kind::data, {}, began_, now, 0});
  marked_ = now;
}

void StepTrace::close(double now) {
  if (place_.work >= 0) own_.push_back({TraceSpan::Kind::marked, place_, marked_, now, 0});
}

void StepTrace::mark(StepPlace place) {
  const double now = wall_seconds();
  close(now);
  place_ = place;
  marked_ = now;
}

void StepTrace::slept(double start, double end) { own_.push_back({TraceSpan::Kind::slept, place_, start, end, 0}); }

void StepTrace::exchanged(StepPlace place, double start, double end, double waited) {
  own_.push_back({TraceSpan::Kind::exchanged, place, start, end, waited});
}

void StepTrace::beside(StepPlace place, double start, double end, double waited) {
  beside_.push_back({TraceSpan::Kind::beside, place, start, end, waited});
}

RankTrace StepTrace::end() {
  RankTrace out{began_, wall_seconds(), {}};
  close(out.end);
  place_ = {};
  most_ = std::max(most_, own_.size());
  out.spans = std::exchange(own_, {});
  out.spans.insert(out.spans.end(), beside_.begin(), beside_.end());
  return out;
}

}  // namespace hetsynth
