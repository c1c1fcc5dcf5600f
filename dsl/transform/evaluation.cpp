#include "dsl/transform/evaluation.h"

#include "dsl/base/error.h"
#include "dsl/ops/div.h"
#include "dsl/transform/complete_names.h"
#include "dsl/transform/metrics.h"

namespace hetsynth {

Program evaluation_program(Trace& trace) {
  HETSYNTH_CHECK(trace.minimized.front().losses.size() == 1, "an evaluation has one batch");
  Program& program = trace.program;
  const Trace::MicroLoss& loss = trace.minimized.front().losses.front();
  program.updates.clear();
  program.outputs.clear();
  program.loss = loss.total.node();
  if (loss.count.defined()) {
    program.outputs.push_back({std::string(loss_total_output), loss.total.node()});
    program.outputs.push_back({std::string(loss_count_output), loss.count.node()});
    program.loss = div(loss.total, loss.count).node();
  }
  add_metrics(trace);
  complete_names(program);
  return simplify(program);
}

}  // namespace hetsynth
