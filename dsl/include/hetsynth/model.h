// What a model file says besides operators: inputs, parameters, options, what to minimise.
#pragma once
#include <string>
#include <utility>
#include <vector>

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

/// A trained tensor of float32. The name is used in plans and checkpoints; a repeated name gains a number.
Tensor parameter(const std::string& name, const Dims& shape, Init init,
                 std::source_location where = std::source_location::current());

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

/// AdamW (Loshchilov and Hutter 2019) with bias correction and a linear warm-up of the learning rate over the first
/// steps.
struct AdamW {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;  ///< applied to parameters of rank 2 and more
  int warmup_steps = 0;
  double clip_norm = 0;  ///< scale gradients so that their global norm is at most this; 0: no clipping
};
/// Stochastic gradient descent with momentum: v = momentum * v + g; p = p - learning_rate * v.
struct SGD {
  double learning_rate = 0.1;
  double momentum = 0.9;
  double clip_norm = 0;
};
void minimize(Tensor loss, const AdamW& optimizer, std::source_location where = std::source_location::current());
void minimize(Tensor loss, const SGD& optimizer, std::source_location where = std::source_location::current());

/// Marks a tensor of the forward pass that the outside wants to read, such as the logits to sample from.
void output(const char* name, Tensor tensor, std::source_location where = std::source_location::current());

/// The same values, through which no gradient flows.
Tensor stop_gradient(Operand tensor);

}  // namespace hetsynth
