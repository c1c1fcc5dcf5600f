#include "runtime/training/validations.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "dsl/base/counted.h"

namespace hetsynth {

void Validations::measure(int64_t step) {
  last_ = options_.evaluate();
  step_ = step;
  if (!last_.complete) return;
  if (last_.loss < best_) {
    best_ = last_.loss;
    without_gain_ = 0;
  } else {
    ++without_gain_;
  }
}

std::optional<double> Validations::loss() const {
  return step_ && last_.complete ? std::optional(last_.loss) : std::nullopt;
}

std::string Validations::line() const {
  if (!last_.complete) return fmt::format("validation after {} steps was interrupted", *step_ + 1);
  const std::string rank =
      is_best() ? "the lowest so far" : fmt::format("no gain since {:.4f}, {}", best_, counted(without_gain_, "time"));
  std::string metrics;
  for (const auto& [name, value] : last_.metrics) metrics += fmt::format("  {} {:.4f}", name, value);
  return fmt::format("validation after {} steps: loss {:.4f}, {}{} ({} in {:.1f} s)", *step_ + 1, last_.loss, rank,
                     metrics, counted(last_.batches, "batch", "batches"), last_.seconds);
}

std::string validation_record(const MeasuredLoss& measured) {
  using Json = nlohmann::ordered_json;
  const Evaluation& found = measured.found;
  const bool there = found.complete && std::isfinite(found.loss);
  Json out{{"step", measured.step},
           {"event", "validation"},
           {"validation_loss", there ? Json(found.loss) : Json(nullptr)},
           {"batches", found.batches},
           {"samples", found.samples},
           {"seconds", found.seconds},
           {"best", measured.is_best}};
  for (const auto& [name, value] : found.metrics)
    out["metrics"][name] = std::isfinite(value) ? Json(value) : Json(nullptr);
  return out.dump();
}

}  // namespace hetsynth
