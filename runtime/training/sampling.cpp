#include "runtime/training/sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "dsl/base/error.h"

namespace hetsynth {
namespace {

void require_finite(std::span<const float> logits) {
  const auto bad = std::ranges::find_if(logits, [](float logit) { return !std::isfinite(logit); });
  if (bad == logits.end()) return;
  throw UserError({.tag = "generate",
                   .message = fmt::format("the logit of token {} is no finite number", bad - logits.begin()),
                   .expected = "finite logits",
                   .found = fmt::format("{}", *bad),
                   .mend = "evaluate the checkpoint: was it trained in another precision?"},
                  ExitCode::failure);
}

/// Indices of the `count` greatest logits, greatest first, of equal ones the lower index first.
std::vector<int64_t> likeliest(std::span<const float> logits, size_t count) {
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto before = [&](int64_t a, int64_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::ranges::partial_sort(order, order.begin() + static_cast<int64_t>(count), before);
  order.resize(count);
  return order;
}

}  // namespace

int64_t draw_token(std::span<const float> logits, const SamplingOptions& options, double uniform) {
  HETSYNTH_CHECK(!logits.empty(), "there are tokens to draw from");
  require_finite(logits);
  const auto greatest = std::ranges::max_element(logits);
  if (options.temperature <= 0) return greatest - logits.begin();
  const auto weight = [&](int64_t token) {
    return std::exp((double{logits[static_cast<size_t>(token)]} - double{*greatest}) / options.temperature);
  };
  std::vector<int64_t> kept;
  const auto all = static_cast<int64_t>(logits.size());
  const int64_t k = options.top_k > 0 ? std::min(options.top_k, all) : all;
  if (k < all || options.top_p < 1) {
    kept = likeliest(logits, static_cast<size_t>(k));
  } else {
    kept.resize(logits.size());
    std::iota(kept.begin(), kept.end(), 0);
  }
  const auto total_of_kept = [&] {
    double total = 0;
    for (const int64_t token : kept) total += weight(token);
    return total;
  };
  double total = total_of_kept();
  if (options.top_p < 1) {
    const double enough = options.top_p * total;
    double sum = 0;
    size_t count = 0;
    while (count < kept.size() && (count == 0 || sum < enough)) sum += weight(kept[count++]);
    kept.resize(count);
    total = sum;
  }
  double left = uniform * total;
  for (const int64_t token : kept) {
    left -= weight(token);
    if (left < 0) return token;
  }
  return greatest - logits.begin();  // rounding left a crumb
}

}  // namespace hetsynth
