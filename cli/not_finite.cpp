#include "cli/not_finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>

#include "dsl/transform/unroll.h"
#include "runtime/launch.h"
#include "runtime/training/checkpoint.h"
#include "synth/planner/synthesize.h"

namespace hetsynth::cli {
namespace {

constexpr double most_seconds = 30;
/// Loops are written out up to so many nodes: 3,500 (70 turns of a scan of nine operators) take 4 s to compile, on a
/// busy machine of two cores.
constexpr int64_t most_nodes = 10'000;
constexpr const char* usual_mend =
    "lower the learning rate, warm it up over more steps, or clip the gradients (clip_norm)";

/// Values that lie somewhere when the step is over.
bool is_watched(const Node& node) { return !node.leaf() && (node.loop < 0 || stacked_dim(node.space) >= 0); }

/// The program with every value that a step leaves as a named output.
Program watched(Program program) {
  program.outputs.clear();
  for (const Node& node : program.nodes)
    if (is_watched(node)) program.outputs.push_back({fmt::format("value{}", node.id), node.id});
  return program;
}

/// What is not finite in a tensor.
struct NotFinite {
  std::string first;     ///< the first such element: "inf at [3,4]"
  bool has_nan = false;  ///< it or another one
};

std::optional<NotFinite> not_finite_in(const HostTensor& tensor) {
  if (!is_real(tensor.type.dtype)) return std::nullopt;
  std::optional<NotFinite> out;
  const std::vector<double> values = to_array(tensor).values;
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    if (out && std::isnan(values[i])) out->has_nan = true;
    if (out) continue;
    Shape place(tensor.type.shape.size());
    auto left = static_cast<int64_t>(i);
    for (size_t d = place.size(); d-- > 0;) {
      place[d] = left % tensor.type.shape[d];
      left /= tensor.type.shape[d];
    }
    out = NotFinite{fmt::format("{} at {}", values[i], text(place)), std::isnan(values[i])};
  }
  return out;
}

struct Found {
  NodeId node = -1;
  std::string value;  ///< "inf at [3,4]"
  int64_t step = 0;
  double largest = 0;     ///< magnitude among what it was computed from
  bool of_state = false;  ///< it makes a state that the model keeps itself
};

/// The program with loops written out, so that every turn's values can be looked at. Where that makes too many nodes it
/// is left as it is.
Unrolling written_out(const Program& program) {
  int64_t nodes = 0;
  for (const Node& node : program.nodes) nodes += program.turns(node.id);
  if (nodes <= most_nodes) return unroll(program);
  Unrolling out{program, {}, {}};
  for (const Node& node : program.nodes) out.copies.push_back({node.id});
  return out;
}

/// One core that runs the program with a look at every value.
class Watch {
 public:
  explicit Watch(const Executor& executor) : Watch(executor, written_out(executor.reference())) {}

  /// Takes parameters and states as they are over from a run of the program whose loops are not written out.
  void take_over(const Executor& executor) {
    for (const Node& node : executor.reference().nodes)
      if (node.kind == NodeKind::parameter || node.kind == NodeKind::state)
        runs_->write(copies_[size_t(node.id)].front(), executor.read(node.id));
  }

  /// Sets the scale that gradients have in the next step.
  void set_scale(double scale) {
    const NodeId state = dynamic_loss_scale(program_);
    HostTensor tensor = runs_->read(state);
    tensor.as<float>()[0] = float(scale);
    runs_->write(state, tensor);
  }

  /// Where the first value that is not finite and that the loss or what the step leaves is made of comes from. Others
  /// do no harm, as -inf where it hides scores.
  std::optional<Found> step(int64_t step, const BatchSource& data) {
    for (const Node& node : program_.nodes)
      if (node.kind == NodeKind::parameter || node.kind == NodeKind::state)
        if (const auto flaw = not_finite_in(runs_->read(node.id))) return Found{node.id, flaw->first, step, 0, false};
    const bool is_loss_finite = std::isfinite(runs_->step(step, data).loss);
    flaws_.clear();
    for (const NamedOutput& output : program_.outputs)
      if (const auto flaw = not_finite_in(runs_->read(output.node))) flaws_.emplace(output.node, *flaw);
    if (!is_loss_finite && flaws_.contains(program_.loss)) return found(origin(program_.loss), step, -1);
    for (const Update& update : program_.updates)
      if (flaws_.contains(update.value)) return found(origin(update.value), step, update.target);
    // An update that is left out because gradients overflow is finite. The number that decides so is not.
    for (const Node& node : program_.nodes)
      if (node.tag() == "unless_overflowed" && flaws_.contains(node.inputs[0]))
        return found(origin(node.inputs[0]), step, -1);
    return std::nullopt;
  }

  const Program& program() const { return program_; }

 private:
  Watch(const Executor& executor, Unrolling unrolling)
      : program_(watched(std::move(unrolling.program))),
        copies_(std::move(unrolling.copies)),
        cluster_(local_cluster(1)) {
    runs_ = launch(program_, single_device_plan(program_, cluster_).program, cluster_,
                   {.executor = {.seed = executor.seed()}, .optimization = 1});
  }

  /// Back through operands that are not finite, and through those that are no number first. An infinite constant is the
  /// origin of nothing but itself.
  NodeId origin(NodeId at) const {
    for (;;) {
      const auto is_flawed = [&](NodeId input) { return flaws_.contains(input) && !program_[input].inputs.empty(); };
      const std::vector<NodeId>& inputs = program_[at].inputs;
      auto next = std::ranges::find_if(inputs, [&](NodeId i) { return is_flawed(i) && flaws_.at(i).has_nan; });
      if (next == inputs.end()) next = std::ranges::find_if(inputs, is_flawed);
      if (next != inputs.end()) {
        at = *next;
        continue;
      }
      // What a loop that is not written out makes in its turns is not kept: the first of what is known comes close.
      const bool is_of_loop =
          std::ranges::any_of(inputs, [&](NodeId i) { return program_[i].loop >= 0 && !is_watched(program_[i]); });
      if (is_of_loop)
        for (const auto& [node, flaw] : flaws_)
          if (node < at && is_flawed(node) && (flaw.has_nan || !flaws_.at(at).has_nan)) return node;
      return at;
    }
  }

  Found found(NodeId node, int64_t step, NodeId target) const {
    const bool of_state =
        target >= 0 && program_[target].kind == NodeKind::state && program_[node].phase == Phase::forward;
    return {node, flaws_.at(node).first, step, largest_operand(program_[node]), of_state};
  }

  double largest_operand(const Node& node) const {
    double largest = 0;
    for (const NodeId input : node.inputs) {
      const Node& operand = program_[input];
      // Leaves are others by now: parameters were updated.
      if (operand.leaf() || operand.loop >= 0 || !is_real(operand.type.dtype)) continue;
      for (const double value : to_array(runs_->read(input)).values) largest = std::max(largest, std::abs(value));
    }
    return largest;
  }

  const Program program_;
  const std::vector<std::vector<NodeId>> copies_;  ///< by node of the executor's program: what it became in program_
  const Cluster cluster_;
  std::unique_ptr<Executor> runs_;
  std::map<NodeId, NotFinite> flaws_;  ///< of the last step
};

std::string mend_of(const Node& node, const Found& found, int64_t first_step) {
  std::string_view tag = node.tag();
  if (constexpr std::string_view slope = "_gradient"; tag.ends_with(slope)) tag.remove_suffix(slope.size());
  if (tag == "log") return "a logarithm of 0 or less: add a little to its argument, or take log_softmax or softplus";
  if (tag == "div" || tag == "rsqrt") return "a division by 0: add a little to the divisor";
  if (tag.ends_with("norm_scale"))
    return "a normalisation of numbers that are all alike, or too large to square: give it an epsilon above 0";
  if (node.type.dtype == DType::fp16)
    return "fp16 holds nothing beyond 65504: take a DynamicLossScale, or a smaller one, or train in bf16 or float32";
  if (tag == "sqrt") return "a root of a negative number, or the slope of a root at 0: add a little to its argument";
  if (tag == "exp")
    return "exp overflows above 88: take softmax, log_softmax or sigmoid, which do not, or smaller inputs";
  if (tag == "pow")
    return "a power of 0 or of a negative number, or one beyond 3.4e38: keep the base above 0 and the exponent small";
  if (found.of_state) return "its update makes the state grow without bound: a running mean, s + 0.1 * (x - s), stays";
  if (found.step == first_step) return "smaller starting values, or inputs of about 1";
  return usual_mend;
}

/// "d_h (of the backward pass), in step 3".
std::string place_of(const Program& program, const Found& found) {
  const Node& node = program[found.node];
  const std::string name = node.name.empty() ? std::string(node.tag()) : node.name;
  const std::string what = node.leaf() ? fmt::format("{} {}", node.tag(), name) : name;
  const char* phase = node.phase == Phase::forward    ? ""
                      : node.phase == Phase::backward ? " (of the backward pass)"
                                                      : " (of the optimizer)";
  return fmt::format("{}{}, in step {}", what, phase, found.step);
}

UserError error_of(const Program& program, const std::string& failure, const Found& found, const std::string& mend) {
  const Node& node = program[found.node];
  Diagnostic out{.where = node.where, .tag = std::string(node.leaf() ? "training" : node.tag())};
  out.message = fmt::format("{}: the first value that is not finite is {}", failure, place_of(program, found));
  out.expected = "finite numbers";
  out.found = found.value;
  if (found.largest > 0) out.found += fmt::format("; the largest number it was computed from is {:.3g}", found.largest);
  out.mend = mend;
  return UserError(std::move(out), ExitCode::failure);
}

std::string not_found_out(const std::exception& error) {
  const std::string words = error.what();
  return "which value was the first could not be found out: " + words.substr(0, words.find('\n'));
}

UserError unexplained(const StepReport& report, const std::string& why) {
  return UserError({.tag = "training",
                    .message = fmt::format("the loss of step {} is {}", report.step, report.loss),
                    .expected = "a finite number",
                    .found = why,
                    .mend = usual_mend},
                   ExitCode::failure);
}

}  // namespace

UserError explain_not_finite(Executor& executor, const BatchSource& data, const StepReport& report,
                             const FailedRun& run) {
  const int64_t before = std::max(report.step - 1, run.first_step);
  if (double(before - run.first_step) * run.step_seconds > most_seconds)
    return unexplained(report,
                       "which value was the first is not known: to repeat the run up to there takes too long; "
                       "--checkpoint-every and --resume go on from near it");
  try {
    if (run.checkpoint.empty())
      executor.initialise();
    else
      load_checkpoint(run.checkpoint, executor);
    for (int64_t step = run.first_step; step < before; ++step) executor.step(step, data);
    Watch watch(executor);
    watch.take_over(executor);
    for (int64_t step = before; step <= report.step; ++step)
      if (const auto found = watch.step(step, data))
        return error_of(watch.program(), fmt::format("the loss of step {} is {}", report.step, report.loss), *found,
                        mend_of(watch.program()[found->node], *found, run.first_step));
  } catch (const std::exception& error) {
    return unexplained(report, not_found_out(error));
  }
  return unexplained(report, "on one core every value was finite: the first one comes of the order of additions");
}

UserError explain_overflow(Executor& executor, const BatchSource& data, const StepReport& report,
                           const OptimizerReport& told) {
  const std::string failure = fmt::format(
      "gradients overflowed in {} steps in a row, though the loss scale fell to {:.3g} meanwhile, and "
      "nothing is trained",
      told.falls, told.next_loss_scale);
  std::string why = "on one core every value was finite";
  try {
    Watch watch(executor);
    watch.take_over(executor);
    watch.set_scale(told.loss_scale.value());
    if (const auto found = watch.step(report.step, data)) {
      const Node& node = watch.program()[found->node];
      // A small scale that did not help is no reason to ask for another.
      const std::string mend = told.next_loss_scale > 1 ? "begin with a smaller scale (initial)"
                               : node.type.dtype == DType::fp16
                                   ? "the gradient is beyond fp16 whatever its scale: make the loss smaller, or train "
                                     "in bf16 or float32"
                                   : mend_of(node, *found, -1);
      return error_of(watch.program(), failure, *found, mend);
    }
  } catch (const std::exception& error) {
    why = not_found_out(error);
  }
  return UserError({.tag = "training",
                    .message = failure,
                    .expected = "a loss scale at which gradients are finite",
                    .found = why,
                    .mend = "look for what is not finite in the backward pass"},
                   ExitCode::failure);
}

}  // namespace hetsynth::cli
