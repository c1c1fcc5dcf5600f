// Dead-end elimination: values that no optimum needs.
#pragma once
#include "synth/wcsp/network.h"

namespace hetsynth::synth {

/// The values of each variable that some optimum may use. A value a goes if some b has
///   cost(b) - cost(a) + sum over pairs of max over the neighbour's values of [cost(b, .) - cost(a, .)] <= 0
/// (Desmet et al. 1992; Goldstein 1994). At least one optimum survives; of two values that dominate each other the
/// first stays. A variable without a possible value keeps none. Variables with equal tables are decided once.
NumberedLists undominated_values(const Network& network);

/// Values that are allowed and that every neighbour has an allowed value for, to a fixed point (arc consistency).
NumberedLists possible_values(const Network& network);

/// The same where all values stayed before the costs of some variables, or of their pairs, became others: `changed`.
/// Other variables are looked at only where something goes beside them.
NumberedLists undominated_after(const Network& network, const std::vector<int>& changed);
NumberedLists possible_after(const Network& network, const std::vector<int>& changed);

}  // namespace hetsynth::synth
