// HAP (Zhang et al., EuroSys '24, arXiv 2401.05965): SPMD plans for unequal devices by synthesis over a small set of
// rules, with shares by linear programming. Only what its rules can express is taken over.
#pragma once
#include <optional>

#include "synth/baselines/baselines.h"

namespace hetsynth::synth {

/// The cheapest plan of HAP's rules: its forward pass is searched; the backward pass follows by automatic
/// differentiation, cutting what the forward operator cut, and the optimizer works on parameters as they are kept. Of
/// the forward pass an operator is whole, cut along the batch, or cut along the output features (or experts) of a
/// product with a parameter and what is done to them element by element. There is no product cut along its sum, no
/// attention but along the batch, no cut of vocabulary or space. Starts from shares by speed and alternates with the
/// linear program; throws UserError if the best does not fit (HAP itself has no memory limit).
std::optional<Plan> hap_plan(const Problem& problem);

}  // namespace hetsynth::synth
