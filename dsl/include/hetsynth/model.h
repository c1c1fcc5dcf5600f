// What a model file says besides operators: inputs, parameters, options, what to minimise.
#pragma once
#include <concepts>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "hetsynth/loss_scale.h"
#include "hetsynth/parameter_group.h"
#include "hetsynth/parameter_options.h"
#include "hetsynth/schedule.h"
#include "hetsynth/tensor.h"

namespace hetsynth {

using Dims = std::vector<int64_t>;

/// Starting values of parameters.
struct Init {
  enum class Kind { constant, normal, uniform } kind = Kind::constant;
  double value = 0;
};
Init constant_init(double value);
Init zeros();
Init ones();
/// Normal around 0 with this standard deviation.
Init normal(double standard_deviation);
/// Uniform in [-half_width, half_width).
Init uniform(double half_width);

/// A trained tensor of float32. The name is used in plans and checkpoints; a second parameter of a name is refused.
Tensor parameter(const std::string& name, const Dims& shape, Init init,
                 std::source_location where = std::source_location::current());
/// The same, trained otherwise than others or not at all: `parameter("w", {4, 4}, zeros(), {.trainable = false})`.
/// Throws UserError for a learning_rate_scale that is not above 0 and for a negative weight_decay.
Tensor parameter(const std::string& name, const Dims& shape, Init init, const ParameterOptions& options,
                 std::source_location where = std::source_location::current());

/// A tensor of float32 that is carried from step to step and not trained: a running statistic, an average of weights.
/// It is part of checkpoints. Until `update` gives it another value it stays as it starts. Names as those of
/// parameters.
Tensor state(const std::string& name, const Dims& shape, Init init,
             std::source_location where = std::source_location::current());
/// The same, of the shape of a parameter, and starting with the numbers that it starts with.
Tensor state(const std::string& name, Tensor parameter, std::source_location where = std::source_location::current());
/// A number of a list, which knows whether it was written as a whole one.
struct ListedNumber {
  template <class Number>
  requires std::integral<Number> || std::floating_point<Number> ListedNumber(Number number)
      : value(double(number)), whole(std::integral<Number>) {}
  double value;
  bool whole;
};

/// A tensor of given numbers, row by row: a graph, a mask, a table. Float32, or int32 if all are written as whole
/// numbers: `constant({0, 2, 1})` can be an index. Without a shape it has one dimension, of a list of lists two. It is
/// data of the program, the same in every step, and in no checkpoint. Throws UserError if numbers are missing or do not
/// fit the type, and for numbers that are not finite.
Tensor constant(std::initializer_list<ListedNumber> values, const Dims& shape = {},
                std::source_location where = std::source_location::current());
Tensor constant(std::initializer_list<std::initializer_list<ListedNumber>> rows,
                std::source_location where = std::source_location::current());
/// What the others call: `shape` is that of the result, {} a scalar's.
Tensor constant_of(const std::vector<double>& values, bool whole, const Dims& shape,
                   std::source_location where = std::source_location::current());
template <class Number>
requires std::integral<Number> || std::floating_point<Number> Tensor
constant(const std::vector<Number>& values, const Dims& shape = {},
         std::source_location where = std::source_location::current()) {
  const Dims filled = shape.empty() ? Dims{int64_t(values.size())} : shape;
  return constant_of({values.begin(), values.end()}, std::integral<Number>, filled, where);
}
/// The array of an npy file (numpy.save), found beside the model's file if the path is relative: reals as float32,
/// whole numbers and bool as int32. Throws UserError if it cannot be read.
Tensor constant(const std::string& npy_file, std::source_location where = std::source_location::current());

/// At the end of the step a state takes this value, float32 of its shape, computed from what parameters and states were
/// in the step; over micro-batches each goes on from what the one before made of it. No gradient flows. Throws
/// UserError unless `state` was made by state() and this is its first update.
void update(Tensor state, Tensor value, std::source_location where = std::source_location::current());

/// A hyper-parameter: the default, unless the command line set it (--set name=value). Throws UserError for a value that
/// is no number of that type.
int64_t option(const char* name, int default_value, const char* help = "",
               std::source_location where = std::source_location::current());
int64_t option(const char* name, int64_t default_value, const char* help = "",
               std::source_location where = std::source_location::current());
double option(const char* name, double default_value, const char* help = "",
              std::source_location where = std::source_location::current());
std::string option(const char* name, const char* default_value, const char* help = "",
                   std::source_location where = std::source_location::current());

/// The position in `names` of what the command line set, or of the default. Throws UserError for a name not among them.
size_t choice_index(const char* name, const char* default_value, const std::vector<std::string>& names,
                    const char* help = "", std::source_location where = std::source_location::current());

/// One of several named values, such as the sizes a network was published in:
///   Size size = choice<Size>("size", "base", {{"base", {12, 768}}, {"tiny", {2, 32}}});   // --set size=tiny
template <class Value>
Value choice(const char* name, const char* default_value, const std::vector<std::pair<std::string, Value>>& values,
             const char* help = "", std::source_location where = std::source_location::current()) {
  std::vector<std::string> names;
  for (const auto& value : values) names.push_back(value.first);
  return values[choice_index(name, default_value, names, help, where)].second;
}

// Optimizers. All of them: the learning rate rises linearly over the first `warmup_steps` steps and then follows the
// schedule; `clip_norm` limits the norm of all gradients together, 0 means no clipping; weight decay is applied to
// parameters of rank 2 and more.

/// AdamW (Loshchilov and Hutter 2019) with bias correction: weight decay apart from the gradient.
struct AdamW {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  int64_t warmup_steps = 0;
  double clip_norm = 0;
  Schedule schedule = {};
};
/// Adam (Kingma and Ba 2015) with bias correction: weight decay is part of the gradient, g + weight_decay p.
struct Adam {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  int64_t warmup_steps = 0;
  double clip_norm = 0;
  Schedule schedule = {};
};
/// LAMB (You et al. 2020): Adam's direction plus decay, made as long as the parameter is. The length is left alone for
/// parameters of rank below 2.
struct LAMB {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double weight_decay = 0.01;
  int64_t warmup_steps = 0;
  double clip_norm = 0;
  Schedule schedule = {};
};
/// Adafactor (Shazeer and Stern 2018) without momentum: second moments of parameters of rank 2 and more are kept as
/// rows and columns of the last two dimensions, so its state is small.
struct Adafactor {
  double learning_rate = 0;         ///< 0: the relative step min(0.01, 1 / sqrt(t))
  double decay_exponent = 0.8;      ///< second moments keep 1 - t^-decay_exponent
  double gradient_epsilon = 1e-30;  ///< added to squared gradients
  double parameter_epsilon = 1e-3;  ///< least size that a parameter counts as having
  double clip_direction = 1;        ///< limit of the root mean square of the direction
  bool scale_by_parameter = true;   ///< multiply the step by the parameter's root mean square
  double weight_decay = 0;
  int64_t warmup_steps = 0;
  double clip_norm = 0;
  Schedule schedule = {};
};
/// Stochastic gradient descent with momentum: v = momentum v + g; p = p - learning_rate v, or with Nesterov's momentum
/// p - learning_rate (g + momentum v). Weight decay is part of the gradient.
struct SGD {
  double learning_rate = 0.1;
  double momentum = 0.9;
  double clip_norm = 0;
  bool nesterov = false;
  double weight_decay = 0;
  int64_t warmup_steps = 0;
  Schedule schedule = {};
};
/// What is minimised: a mean, or a total over a count (labels that are not padding, say). Over the micro-batches of a
/// step (--accumulate) means are averaged, while totals and counts are added up: the step is that of the whole batch
/// however the counts are spread. The count carries no gradient.
struct Loss {
  Loss(Tensor mean) : total(mean) {}
  Loss(Tensor total, Tensor count) : total(total), count(count) {}
  Tensor total, count;
};
/// What is minimised, and by which optimizer. Of several losses (generator and discriminator) each is minimised by the
/// parameters of its own group, and leaves all others as they are; every parameter is of one group. All gradients are
/// those at what the parameters were when the step began. Throws UserError for a second call without groups, and for a
/// name of a group that another group, an output or a metric has.
void minimize(Loss loss, const AdamW& optimizer, const ParameterGroup& group = {},
              std::source_location where = std::source_location::current());
void minimize(Loss loss, const Adam& optimizer, const ParameterGroup& group = {},
              std::source_location where = std::source_location::current());
void minimize(Loss loss, const LAMB& optimizer, const ParameterGroup& group = {},
              std::source_location where = std::source_location::current());
void minimize(Loss loss, const Adafactor& optimizer, const ParameterGroup& group = {},
              std::source_location where = std::source_location::current());
void minimize(Loss loss, const SGD& optimizer, const ParameterGroup& group = {},
              std::source_location where = std::source_location::current());

/// Marks a tensor of the forward pass that the outside wants to read, such as the logits to sample from.
void output(const char* name, Tensor tensor, std::source_location where = std::source_location::current());

/// A scalar that is told beside the loss (an accuracy, a part of the loss), a mean over the samples of a step as the
/// loss is: over micro-batches it is averaged, or is total / count. It is not differentiated. Throws UserError for what
/// is no scalar, and for a name that an output or another metric has.
void metric(const char* name, Loss value, std::source_location where = std::source_location::current());

/// Called before the model computes anything. "f32": all in float32. "bf16" or "fp16": products with parameters, matrix
/// products of activations and those of their gradients are of that format with float32 sums; all else, parameters too,
/// stays float32.
/// `loss_scale`: the backward pass runs on the loss times this, so that small gradients survive rounding, as in
/// fp16, which holds nothing below 2^-25; the optimizer sees them unscaled.
void mixed_precision(const std::string& precision, double loss_scale = 1,
                     std::source_location where = std::source_location::current());
/// The same with a scale that follows the gradients; with "f32" there is no scale.
void mixed_precision(const std::string& precision, const DynamicLossScale& loss_scale,
                     std::source_location where = std::source_location::current());

/// While alive, what is computed is not kept for the backward pass, which computes it again: memory against time.
class CheckpointScope {
 public:
  CheckpointScope();
  ~CheckpointScope();
  CheckpointScope(const CheckpointScope&) = delete;
  CheckpointScope& operator=(const CheckpointScope&) = delete;

 private:
  bool outermost_;
  int first_;
};
/// Activation checkpointing (Chen et al. 2016) of a part of the model: `x = checkpoint([&] { return block(x); });`.
/// What goes in and what comes out is kept, everything between is computed again in the backward pass, with the same
/// dropout. Inside of another checkpoint it does nothing.
template <class Body>
auto checkpoint(Body&& body) {
  CheckpointScope scope;
  return body();
}

/// The same values, through which no gradient flows.
Tensor stop_gradient(Operand tensor);

}  // namespace hetsynth
