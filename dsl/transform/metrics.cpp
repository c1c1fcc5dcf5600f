#include "dsl/transform/metrics.h"

#include <utility>

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

}  // namespace hetsynth
