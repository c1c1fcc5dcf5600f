// How a learning rate changes over the steps of a training run.
#pragma once
#include <cstdint>

namespace hetsynth {

/// Factor of the learning rate after warm-up, by step s counted from 0; warm-up ends at step w.
struct Schedule {
  enum class Kind : uint8_t {
    constant,      ///< 1
    linear,        ///< from 1 at step w straight down to `final` at step `steps`, then `final`
    cosine,        ///< from 1 at step w along half a cosine to `final` at step `steps`, then `final`
    step,          ///< factor^floor(s / steps)
    exponential,   ///< factor^s
    inverse_sqrt,  ///< sqrt(w / s) after warm-up (Vaswani et al. 2017); w is at least 1
  } kind = Kind::constant;
  int64_t steps = 0;
  double factor = 1;
  double final = 0;
};
Schedule linear_schedule(int64_t steps, double final = 0);
Schedule cosine_schedule(int64_t steps, double final = 0);
Schedule step_schedule(int64_t steps, double factor);
Schedule exponential_schedule(double factor);
Schedule inverse_sqrt_schedule();

}  // namespace hetsynth
