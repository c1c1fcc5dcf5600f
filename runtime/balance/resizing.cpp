#include "runtime/balance/resizing.h"

#include <algorithm>
#include <cstddef>

namespace hetsynth {
namespace {

/// Smaller parts are within what speeds are measured to.
constexpr double least_part = 0.02;

/// The part that a rank leaves out to compute for `target` seconds.
double part_for(const ComputeShares& rank, double target) {
  if (rank.seconds <= target || rank.products <= 0) return 0;
  const double part = (1 - target / rank.seconds + rank.packing) / rank.products;
  return part < least_part ? 0 : std::min(part, most_left_out);
}

Resizing resizing_to(const std::vector<ComputeShares>& ranks, double target,
                     const std::function<double(const std::vector<double>&)>& step_seconds) {
  Resizing out;
  std::vector<double> times;
  double left_out = 0, all = 0;
  for (const ComputeShares& rank : ranks) {
    const double part = part_for(rank, target);
    out.parts.push_back(part);
    times.push_back(part > 0 ? 1 - part * rank.products + rank.packing : 1);
    left_out += part * rank.flops;
    all += rank.flops;
  }
  out.seconds = step_seconds(times);
  out.left_out = all > 0 ? left_out / all : 0;
  return out;
}

}  // namespace

ComputeShares with_all_columns(double seconds, double product_seconds, double packing_seconds, double flops,
                               double left_out) {
  const double products = product_seconds / (1 - left_out);
  ComputeShares out{.seconds = seconds - packing_seconds - product_seconds + products, .flops = flops};
  if (out.seconds <= 0) return out;
  out.products = products / out.seconds;
  out.packing = packing_seconds / out.seconds;
  return out;
}

Resizing best_resizing(const std::vector<ComputeShares>& ranks,
                       const std::function<double(const std::vector<double>&)>& step_seconds, double least_gain) {
  Resizing nothing;
  nothing.parts.assign(ranks.size(), 0);
  nothing.seconds = step_seconds(std::vector<double>(ranks.size(), 1));
  Resizing best = nothing;
  // Between two ranks' times the time for the work falls or rises all the way: one of these times is the best target.
  for (const ComputeShares& target : ranks) {
    if (target.seconds <= 0) continue;
    Resizing tried = resizing_to(ranks, target.seconds, step_seconds);
    if (tried.worth_seconds() < best.worth_seconds()) best = std::move(tried);
  }
  return best.worth_seconds() < (1 - least_gain) * nothing.seconds ? best : nothing;
}

Remedy choose_remedy(const RemedyFigures& figures, double least_gain) {
  Remedy lossless = Remedy::nothing;
  double seconds = figures.nothing_seconds;
  if (figures.divide_seconds > 0 && figures.horizon > 0) {
    const double divided = figures.divide_seconds + figures.pause_seconds / double(figures.horizon);
    if (figures.divide_seconds < (1 - least_gain) * seconds && divided < seconds) {
      lossless = figures.same_program ? Remedy::shares : Remedy::plan;
      seconds = divided;
    }
  }
  const bool resize = figures.resizing.any() && figures.resizing.worth_seconds() < (1 - least_gain) * seconds;
  return resize ? Remedy::resize : lossless;
}

}  // namespace hetsynth
