// What reparametrised costs show by themselves: values that no solution within a budget can use.
#pragma once
#include "synth/wcsp/message_passing.h"

namespace hetsynth::synth {

/// By cell: values whose least excess, their own and that of all their pairs, does not push a solution above `budget`
/// (relative to the bound), to a fixed point.
ValueLists values_within(const Quotient& quotient, const Reparametrised& costs, Picoseconds budget);

/// The network over some values of each variable only, renumbered from 0, at the moved costs.
Network restrict(const Network& network, const Quotient& quotient, const Reparametrised& costs,
                 const NumberedLists& values);

/// By variable.
NumberedLists spread(const Quotient& quotient, const ValueLists& by_cell);

}  // namespace hetsynth::synth
