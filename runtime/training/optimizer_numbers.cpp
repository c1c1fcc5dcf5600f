#include "runtime/training/optimizer_numbers.h"

#include "dsl/ir/interpreter.h"

namespace hetsynth {

NodeId dynamic_loss_scale(const Program& program) {
  NodeId scale = -1;
  bool counts = false;
  for (const Node& node : program.nodes) {
    if (node.kind != NodeKind::state || !node.type.shape.empty()) continue;
    // The two states that mixed_precision keeps for a dynamic scale.
    if (node.name == "loss_scale") scale = node.id;
    if (node.name == "loss_scale.good_steps") counts = true;
  }
  return counts ? scale : -1;
}

OptimizerNumbers::OptimizerNumbers(const Executor& executor)
    : executor_(executor), scale_(dynamic_loss_scale(executor.reference())) {
  for (const Node& node : executor.reference().nodes)
    if (rate_ < 0 && !node.leaf() && node.tag() == "learning_rate" && node.inputs.empty()) rate_ = node.id;
  if (scale_ >= 0) scale_before_ = scale();
}

double OptimizerNumbers::scale() const { return static_cast<double>(executor_.read(scale_).as<float>()[0]); }

OptimizerReport OptimizerNumbers::after(int64_t step) {
  OptimizerReport out;
  if (rate_ >= 0) {
    const Node& rate = executor_.reference()[rate_];
    out.learning_rate =
        evaluate(rate.space, rate.body, {}, full_ranges(rate.space), rate.type.shape, {.step = step}).array.values[0];
  }
  if (scale_ >= 0) {
    const double next = scale();
    const bool fell = next < scale_before_;  // only an overflow makes it smaller
    skipped_ += fell;
    falls_ = fell ? falls_ + 1 : 0;
    out.loss_scale = scale_before_;
    out.skipped_steps = skipped_;
    out.falls = falls_;
    out.next_loss_scale = next;
    scale_before_ = next;
  }
  return out;
}

}  // namespace hetsynth
