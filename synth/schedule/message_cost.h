// What messages between hosts cost cpu devices beside the time on the link: packing, adding up, and what the operating
// system does with every byte take a core away from computing.
#pragma once
#include <vector>

#include "synth/schedule/price.h"

namespace hetsynth::synth {

/// Seconds of its computing that each collective of the program costs each rank, by [instruction][rank]; empty if no
/// device of the cluster says what messages cost it (Device::message_seconds_per_byte). Bytes are those that ranks send
/// to ranks of other hosts and get from them: every part directly, or once for each other host where a collective is
/// hierarchical.
std::vector<std::vector<double>> message_seconds(const Problem& problem, const SpmdProgram& program,
                                                 const Pricer& pricer);

}  // namespace hetsynth::synth
