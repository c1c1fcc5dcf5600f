#include "runtime/training/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "dsl/base/error.h"
#include "dsl/transform/evaluation.h"
#include "runtime/data/data_ahead.h"
#include "runtime/rank/interrupt.h"
#include "runtime/rank/throttle.h"

namespace hetsynth {
namespace {

/// Of data that are made up: a step of training shows no more of them than any other.
constexpr int64_t batches_of_endless_data = 16;

NodeId output_node(const Program& reference, std::string_view name) {
  for (const NamedOutput& output : reference.outputs)
    if (output.name == name) return output.node;
  return -1;
}

double scalar(const Executor& executor, NodeId node) { return double(executor.read_output(node).as<float>()[0]); }

}  // namespace

int64_t samples_of_batches(const Program& reference, const BatchSource& data, int64_t batches) {
  return samples_before(reference, data, batches) - samples_before(reference, data, 0);
}

int64_t batches_to_evaluate(const Program& reference, const BatchSource& data, int64_t most) {
  const std::optional<int64_t> there = steps_of_epoch(reference, data);
  if (there == 0)
    throw UserError({.tag = "data",
                     .message = "the data to evaluate have less samples than one batch",
                     .expected = fmt::format("{} samples at least", samples_of_batches(reference, data, 1)),
                     .found = data.description(),
                     .mend = "take more data, or a smaller batch (--batch)"});
  if (!there) return most > 0 ? most : batches_of_endless_data;
  return most > 0 ? std::min(most, *there) : *there;
}

Evaluation evaluate(Executor& executor, const BatchSource& data, int64_t batches) {
  const DataAhead ahead(data, batches - 1);
  return evaluate(
      executor, [&](int64_t) -> const BatchSource& { return ahead; }, batches);
}

Evaluation evaluate(Executor& executor, const std::function<const BatchSource&(int64_t)>& data_of, int64_t batches) {
  HETSYNTH_CHECK(batches > 0, "there is something to evaluate");
  const Program& reference = executor.reference();
  const NodeId total = output_node(reference, loss_total_output), count = output_node(reference, loss_count_output);
  Evaluation out;
  double sum = 0, weight = 0;
  const double began = wall_seconds();
  for (; out.batches < batches && !executor.anywhere(stop_requested()); ++out.batches) {
    const BatchSource& data = data_of(out.batches);
    const StepReport report = executor.step(out.batches, data);
    out.samples = samples_of_batches(reference, data, out.batches + 1);
    sum += total >= 0 ? scalar(executor, total) : report.loss;
    for (size_t i = 0; i < report.metrics.size(); ++i) {
      if (i == out.metrics.size()) out.metrics.emplace_back(report.metrics[i].first, 0);
      out.metrics[i].second += report.metrics[i].second;
    }
    weight += count >= 0 ? scalar(executor, count) : 1;
  }
  out.seconds = wall_seconds() - began;
  out.complete = out.batches == batches;
  out.loss = sum / weight;
  for (auto& [name, value] : out.metrics) value /= double(out.batches);
  return out;
}

}  // namespace hetsynth
