#include "dsl/transform/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dsl/ops/clip_by_global_norm.h"
#include "dsl/ops/div.h"
#include "dsl/ops/mul.h"

namespace hetsynth {

void add_metrics(Trace& trace) {
  const Phase phase = std::exchange(trace.phase, Phase::forward);
  for (const Trace::Metric& metric : trace.metrics) {
    HETSYNTH_CHECK(int(metric.parts.size()) == trace.micro_batches, "every micro-batch has its metrics");
    Tensor total, count;
    for (const Trace::MicroLoss& part : metric.parts) {
      total = total.defined() ? accumulate(total, part.total) : part.total;
      if (part.count.defined()) count = count.defined() ? accumulate(count, part.count) : part.count;
    }
    if (count.defined())
      total = div(total, count);
    else if (trace.micro_batches > 1)
      total = mul(total, 1.0 / trace.micro_batches);
    trace.program.outputs.push_back({metric.name, total.node(), true});
  }
  trace.phase = phase;
}

void add_gradient_norm(Trace& trace, const Trace::Minimized& minimized, const std::vector<Tensor>& gradients) {
  const std::string& group = minimized.group.name;
  const std::string name = group.empty() ? "gradient_norm" : "gradient_norm." + group;
  const auto has_name = [&](const NamedOutput& other) { return other.name == name; };
  if (std::ranges::any_of(trace.program.outputs, has_name))
    throw UserError({.where = location(minimized.where),
                     .tag = "gradient_norm",
                     .message = fmt::format("the model has an output or a metric named {} itself", name),
                     .expected = "another name, as that of the norm is taken",
                     .found = fmt::format("\"{}\" twice", name),
                     .mend = "give the model's own another name, or leave --gradient-norm out"},
                    ExitCode::usage);
  Tensor norm = global_norm(gradients, minimized.where);
  trace.set_name(norm, name, {});
  trace.program.outputs.push_back({name, norm.node(), true});
}

}  // namespace hetsynth
