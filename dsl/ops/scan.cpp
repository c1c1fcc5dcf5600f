#include "dsl/ops/scan.h"

#include <fmt/format.h>

#include <algorithm>

#include "dsl/ops/support/turn_operators.h"

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

/// While alive, what is emitted is attributed to the call of scan. Not for the body: its lines are its own.
using AtCall = CallScope;

void check_state(const std::vector<Tensor>& before, const std::vector<Tensor>& after,
                 const std::source_location& where) {
  if (before.size() != after.size())
    fail(where, "a step gives another number of states", std::to_string(before.size()), std::to_string(after.size()));
  for (size_t i = 0; i < before.size(); ++i) {
    if (!after[i].defined())
      fail(where, fmt::format("a step gives no state {}", i), text(before[i].shape()), "a default-constructed Tensor");
    const TensorType was{before[i].shape(), before[i].dtype()}, is{after[i].shape(), after[i].dtype()};
    if (was == is) continue;
    fail(where, fmt::format("a step gives state {} another {}", i, was.shape == is.shape ? "type" : "shape"), text(was),
         text(is), "a state keeps its shape and type from step to step");
  }
}

bool draws_random(const Expr& e) {
  return e.kind() == ExprKind::random || std::any_of(e.args().begin(), e.args().end(), draws_random);
}

/// What cannot be in a body that stands for all steps.
void check_body(const Trace& trace, size_t first, size_t checkpoints, const std::source_location& where) {
  for (size_t i = first; i < trace.program.nodes.size(); ++i) {
    const Node& node = trace.program.nodes[i];
    if (node.leaf())
      fail(where, fmt::format("the body makes {} {}", name(node.kind), node.name), "only operators in the body",
           "one more in every step", "make it before the scan and use it in the body");
    if (draws_random(node.body))
      fail(where, "the body draws random numbers", "a body that does the same in every step", std::string(node.tag()),
           "apply dropout to the sequence before or behind the scan");
  }
  if (trace.recomputed.size() > checkpoints)
    fail(where, "the body contains a checkpoint", "a body without", "one", "put the whole scan into the checkpoint");
}

ScanResult loop_over(const std::vector<Tensor>& sequences, int64_t steps, const std::vector<Tensor>& initial,
                     const ScanBody& body, const std::source_location& where) {
  Trace& trace = Trace::current();
  if (trace.loop >= 0) fail(where, "a scan stands in the body of another", "one loop over steps", "two");
  constexpr int time = 1;
  ScanResult out;
  LoopScope loop(steps);
  std::vector<Tensor> state, now;
  {
    AtCall scope(where);
    for (Tensor first : initial) state.push_back(loop.carry(first));
    for (Tensor x : sequences) now.push_back(at_turn(x, {.dim = time}));
  }
  const size_t first = trace.program.nodes.size(), checkpoints = trace.recomputed.size();
  ScanStep step = body(state, now, where);
  check_body(trace, first, checkpoints, where);
  check_state(state, step.state, where);
  AtCall scope(where);
  for (size_t i = 0; i < state.size(); ++i) out.state.push_back(loop.next(state[i], step.state[i]));
  if (step.output.defined()) {
    if (step.output.rank() == 0) fail(where, "the output of a step is a scalar", "[batch, ...]", "[]");
    out.outputs = stack_turns(step.output, {.dim = time}, steps);
  }
  loop.close();
  for (Tensor& last : out.state) last = after_last_turn(last);
  return out;
}

}  // namespace

ScanStep ScanBody::operator()(const std::vector<Tensor>& state, const std::vector<Tensor>& x,
                              const std::source_location& where) const {
  if (of_many_) return of_many_(state, x);
  if (x.size() != 1)
    fail(where, "the body takes the tensor of one sequence", "one sequence", fmt::format("{} sequences", x.size()),
         "let the body take (const std::vector<Tensor>& state, const std::vector<Tensor>& x)");
  return of_one_(state, x[0]);
}

ScanResult scan(const std::vector<Operand>& x, const std::vector<Tensor>& initial, const ScanBodyOfMany& body) {
  if (x.empty())
    fail(std::source_location::current(), "there is no sequence", "one or more", "none", "scan_steps(n, ...)");
  std::vector<Tensor> sequences;
  for (const Operand& operand : x) {
    Tensor in = as_tensor(operand);
    if (in.rank() < 2) fail(operand.where, "there is no dimension of time", "[batch, time, ...]", text(in.shape()));
    sequences.push_back(in);
    if (in.size(1) != sequences[0].size(1))
      fail(operand.where, fmt::format("sequence {} has another number of steps than sequence 0", sequences.size() - 1),
           fmt::format("{} steps, as {} has", sequences[0].size(1), text(sequences[0].shape())),
           fmt::format("{} steps in {}", in.size(1), text(in.shape())));
  }
  return loop_over(sequences, sequences[0].size(1), initial, body, x[0].where);
}

ScanResult scan(Operand x, const std::vector<Tensor>& initial, const ScanBody& body) {
  return scan(std::vector<Operand>{x}, initial, body);
}

ScanResult scan_steps(int64_t steps, const std::vector<Tensor>& initial, const ScanBodyOfMany& body,
                      std::source_location where) {
  if (steps < 1) fail(where, "there is no step to take", "at least 1", std::to_string(steps));
  return loop_over({}, steps, initial, body, where);
}

OperatorInfo scan_info() { return {"scan", "A loop over time steps with carried state.", {}}; }

}  // namespace hetsynth
