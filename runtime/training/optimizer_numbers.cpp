#include "runtime/training/optimizer_numbers.h"

#include "dsl/ir/interpreter.h"

namespace hetsynth {

OptimizerNumbers::OptimizerNumbers(const Executor& executor) : executor_(executor) {
  NodeId scale = -1;
  bool counts = false;
  for (const Node& node : executor.reference().nodes) {
    if (rate_ < 0 && !node.leaf() && node.tag() == "learning_rate" && node.inputs.empty()) rate_ = node.id;
    if (node.kind != NodeKind::state || !node.type.shape.empty()) continue;
    // The two states that mixed_precision keeps for a dynamic scale.
    if (node.name == "loss_scale") scale = node.id;
    if (node.name == "loss_scale.good_steps") counts = true;
  }
  if (counts && scale >= 0) {
    scale_ = scale;
    scale_before_ = this->scale();
  }
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
    if (next < scale_before_) ++skipped_;  // only an overflow makes it smaller
    out.loss_scale = scale_before_;
    out.skipped_steps = skipped_;
    scale_before_ = next;
  }
  return out;
}

}  // namespace hetsynth
