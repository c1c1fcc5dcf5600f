#include "synth/memory/recompute_floor.h"

#include <algorithm>
#include <map>

#include "synth/schedule/attention_runs.h"
#include "synth/schedule/memory_budget.h"
#include "synth/schedule/price.h"
#include "synth/schedule/schedule.h"

namespace hetsynth::synth {
namespace {

/// Sums are of floating-point numbers, in another order than those that decide whether a program fits.
constexpr double rounding = 1e-9;

/// One device for all of the same parts under the same limit.
std::vector<int> examples(const Problem& problem, const SpmdProgram& program) {
  std::map<std::vector<int64_t>, int> seen;
  for (int d = 0; d < problem.cost.device_count(); ++d) {
    std::vector<int64_t> parts{memory_budget(problem, size_t(d))};
    for (const BoundaryTable& table : program.tables) {
      const std::vector<int64_t>& bounds = table.bounds_of(program.mesh, d);
      const size_t at = size_t(problem.cost.coordinate(d, table.axis));
      parts.push_back(bounds[at + 1] - bounds[at]);
      parts.push_back(bounds.back() - bounds.front());
    }
    seen.try_emplace(std::move(parts), d);
  }
  std::vector<int> out;
  for (const auto& [parts, device] : seen) out.push_back(device);
  return out;
}

/// From what comes and goes to what is there.
void accumulate(std::vector<double>* bytes) {
  for (size_t i = 1; i < bytes->size(); ++i) (*bytes)[i] += (*bytes)[i - 1];
}

}  // namespace

RecomputeFloor::RecomputeFloor(const Problem& problem, const SpmdProgram& program, std::vector<Absence> order)
    : order_(std::move(order)) {
  const AttentionRuns attention(problem.cost, program);
  const std::vector<char> stored = stored_values(problem, program, attention);
  const std::vector<int> devices = examples(problem, program), last = last_uses(problem, program, attention, stored),
                         made = made_at(problem, program);
  const size_t count = program.instructions.size();
  const Pricer pricer(problem, program);
  for (int d : devices)
    kinds_.push_back({double(memory_budget(problem, size_t(d))), std::vector<double>(count + 3, 0), {}});
  for (ValueId v = 0; v < ValueId(program.values.size()); ++v) {
    if (!stored[size_t(v)] || last[size_t(v)] < 0) continue;
    // They go with the result that they belong to.
    if (attention.part(program.values[size_t(v)].node) == AttentionPart::statistic) continue;
    for (size_t k = 0; k < kinds_.size(); ++k) {
      const double bytes = pricer.held_bytes(v, devices[k]);
      kinds_[k].live[size_t(made[size_t(v)] + 1)] += bytes;
      kinds_[k].live[size_t(last[size_t(v)] + 2)] -= bytes;
    }
  }
  for (Kind& kind : kinds_) accumulate(&kind.live);
  for (const Absence& absence : order_)
    for (size_t k = 0; k < kinds_.size(); ++k) kinds_[k].absent.push_back(pricer.held_bytes(absence.value, devices[k]));
}

size_t RecomputeFloor::least_count() const {
  size_t least = 0;
  for (const Kind& kind : kinds_) {
    if (may_fit(kind, least)) continue;
    size_t too_few = least, enough = order_.size() + 1;
    while (too_few + 1 < enough) {
      const size_t middle = (too_few + enough) / 2;
      (may_fit(kind, middle) ? enough : too_few) = middle;
    }
    least = enough;
    if (least > order_.size()) break;
  }
  return least;
}

bool RecomputeFloor::may_fit(const Kind& kind, size_t count) const {
  if (kind.limit <= 0) return true;
  std::vector<double> less(kind.live.size(), 0);
  for (size_t i = 0; i < count; ++i) {
    less[size_t(order_[i].after + 2)] += kind.absent[i];
    less[size_t(order_[i].before + 1)] -= kind.absent[i];
  }
  accumulate(&less);
  for (size_t i = 0; i < less.size(); ++i)
    if (kind.live[i] - less[i] > kind.limit * (1 + rounding)) return false;
  return true;
}

}  // namespace hetsynth::synth
