// One term of a sum, and whether what it is depends on where its counters are by more than what is read there: numbers
// that follow from the counters are followed to wherever something is decided by them.
#include <algorithm>

#include "verify/source/meaning/compute.h"

namespace hetsynth::source {
double Meaning::term(ValueId value, const Index& index, const std::vector<int64_t>& point, Watch* watch) {
  struct Watched {
    Watch*& by;
    std::vector<Linear>& index;
    ~Watched() { by = nullptr, index.clear(); }
  } watched{watch_ = watch, index_};
  if (watch) counters_ = {point, summed_over(value)};
  return by_own_or_first(value, [&](ValueId v) { return compute(computed_by(v), index, &point); });
}

/// How the factors of what is computed depend on the counters: those of the sum itself are the counters, or are gone
/// through at every turn; others follow from the index of the element that is asked for, whose digits they are.
void Meaning::follow_index(Compute& frame, const std::vector<int64_t>* point) {
  std::vector<Linear>& moving = moving_[size_t(depth_)];
  moving.assign(frame.factor.size(), {});
  const std::vector<int>& reduced = reduced_[size_t(frame.node.id)];
  if (point) {
    for (size_t l = 0; l < reduced.size(); ++l)
      if ((*point)[l] >= 0) moving[size_t(reduced[l])] = Linear::counter(l);
    return;
  }
  for (size_t d = 0; d < frame.output.size(); ++d) {
    const DimIndex& dim = frame.node.space.output.dims[d];
    Linear rest = index_[d];
    int64_t value = frame.output[d] - dim.offset;
    for (const IndexTerm& term : dim.terms) {
      moving[size_t(term.factor)].add(quotient(rest, value, term.stride, counters_), term.divide);
      rest = remainder(rest, value, term.stride, counters_);
      value %= term.stride;
    }
  }
}

/// Whether a factor that the expression mentions depends on the counters.
bool Meaning::moves(const Expr& e) const {
  if (e.kind() == ExprKind::factor) return !moving_[size_t(depth_)][size_t(e.index())].constant();
  return std::ranges::any_of(e.args(), [&](const Expr& arg) { return moves(arg); });
}

/// How a dimension of the index of an operand's element depends on the counters.
Linear Meaning::follow_access(const Compute& frame, const DimIndex& dim) const {
  const std::vector<Linear>& moving = moving_[size_t(depth_)];
  Linear out;
  for (const IndexTerm& term : dim.terms) {
    Linear number = moving[size_t(term.factor)];
    int64_t value = frame.factor[size_t(term.factor)];
    if (term.divide != 1) number = quotient(number, value, term.divide, counters_);
    value /= term.divide;
    if (term.modulo != 0) number = remainder(number, value, term.modulo, counters_);
    out.add(number, term.stride);
  }
  return out;
}

/// Whether an operand has an element depends on whether the number is from 0 to below the extent.
void Meaning::note_bounds(const Linear& number, int64_t value, int64_t extent) {
  if (number.constant() || (number.known && depth_ == 1 && watch_->bounded)) return;
  if (!number.known || !watch_->flips) {
    watch_->alike = false;
    return;
  }
  for (size_t c = 0; c < counters_.now.size(); ++c)
    for (const int64_t bound : {int64_t(0), extent})
      for (const int64_t at : next_to_bound(number, value, bound, c, counters_)) {
        std::vector<int64_t> point = counters_.now;
        point[c] = at;
        watch_->next_to_flips.insert(std::move(point));
      }
}

}  // namespace hetsynth::source
