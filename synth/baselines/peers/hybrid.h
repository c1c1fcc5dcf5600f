// Data parallelism, with what it keeps cut over the devices or not, together with tensor parallelism on a mesh of two
// axes: the strategies that Galvatron gives its layers (Miao et al., VLDB '23, arXiv 2211.13878).
#pragma once
#include "synth/baselines/baselines.h"

namespace hetsynth::synth {

/// What data parallelism keeps in parts along the axis of samples, where it has a dimension that can be cut.
enum class KeptCut : uint8_t {
  nothing,
  states,
  all,  ///< and parameters; in turns, where a parameter is gathered once for all, the sums over turns instead
};

struct Hybrid {
  bool tensor = false;  ///< along the inner of two axes: products with parameters; else samples, as along the outer one
  KeptCut cut = KeptCut::nothing;
};

/// Choices on a mesh of one or two axes, samples along the first; no nodes if there are none. `flat`: the same program
/// on one axis.
Choices hybrid_choices(const AtShares& at, const Problem& flat, Hybrid hybrid);

}  // namespace hetsynth::synth
