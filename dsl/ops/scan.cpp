#include "dsl/ops/scan.h"

#include <fmt/format.h>

#include "dsl/ir/trace.h"
#include "dsl/ops/concat.h"
#include "dsl/ops/reshape.h"
#include "dsl/ops/slice.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

[[noreturn]] void fail(const std::source_location& where, const std::string& message, const std::string& expected,
                       const std::string& found, const std::string& mend = "") {
  throw UserError({.where = location(where),
                   .tag = "scan",
                   .message = message,
                   .expected = expected,
                   .found = found,
                   .mend = mend});
}

/// x[:, t] without the dimension of time.
Tensor at_step(Tensor x, int64_t t, const std::source_location& where) {
  Shape shape = x.shape();
  shape.erase(shape.begin() + 1);
  return reshape(Operand(slice(Operand(x, where), 1, t, t + 1), where), shape);
}

void check_state(const std::vector<Tensor>& before, const std::vector<Tensor>& after, int64_t t,
                 const std::source_location& where) {
  if (before.size() != after.size())
    fail(where, fmt::format("step {} gives another number of states", t), std::to_string(before.size()),
         std::to_string(after.size()));
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i].shape() == after[i].shape() && before[i].dtype() == after[i].dtype()) continue;
    fail(where, fmt::format("step {} gives state {} another shape", t, i), text(before[i].shape()),
         text(after[i].shape()));
  }
}

/// "h" becomes "h[3]"; what the body should not make is refused.
void finish_nodes(Program& program, size_t first, int64_t t, const std::source_location& where) {
  for (size_t i = first; i < program.nodes.size(); ++i) {
    Node& node = program.nodes[i];
    if (node.leaf())
      fail(where, fmt::format("the body makes {} {}", name(node.kind), node.name), "only operators in the body",
           fmt::format("one more in step {}", t), "make it before the scan and use it in the body");
    if (!node.name.empty()) node.name += fmt::format("[{}]", t);
  }
}

}  // namespace

ScanResult scan(Operand x, const std::vector<Tensor>& initial, const ScanBody& body) {
  Trace& trace = Trace::current();
  Tensor in = as_tensor(x);
  if (in.rank() < 2) fail(x.where, "there is no dimension of time", "[batch, time, ...]", text(in.shape()));
  ScanResult out{initial, {}};
  std::vector<Tensor> outputs;
  for (int64_t t = 0; t < in.size(1); ++t) {
    Tensor now = at_step(in, t, x.where);
    const size_t first = trace.program.nodes.size();
    ScanStep step = body(out.state, now, t);
    finish_nodes(trace.program, first, t, x.where);
    check_state(out.state, step.state, t, x.where);
    if (t > 0 && step.output.defined() == outputs.empty())
      fail(x.where, fmt::format("step {} differs from those before it", t), outputs.empty() ? "no output" : "an output",
           outputs.empty() ? "an output" : "none");
    if (step.output.defined()) {
      Shape shape = step.output.shape();
      if (shape.empty()) fail(x.where, "the output of a step is a scalar", "[batch, ...]", "[]");
      shape.insert(shape.begin() + 1, 1);
      outputs.push_back(reshape(Operand(step.output, x.where), shape));
    }
    out.state = std::move(step.state);
  }
  if (!outputs.empty()) out.outputs = concat(outputs, 1, x.where);
  return out;
}

OperatorInfo scan_info() { return {"scan", "A loop over time steps with carried state.", {}}; }

}  // namespace hetsynth
