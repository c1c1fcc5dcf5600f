// Work by device: parts of it to begin the alternation of shares with, and what of it a plan gives to each.
#pragma once
#include <vector>

#include "synth/problem.h"

namespace hetsynth::synth {

/// Parts by device that the alternation starts from, not normalised: by speed, even, by products per second, memory
/// bandwidth and memory, and the fastest devices alone; where all are alike, even; where the user gave them, those. It
/// can get stuck, so there are several.
std::vector<std::vector<double>> parts_to_start_at(const Problem& problem);

/// Each device's floating-point operations: what stands for the shares of all classes in one number. Ones if there are
/// none.
std::vector<double> device_work(const Problem& problem, const Shares& shares, const Choices& choices);

/// The class that most of a plan's time for computing on the first axis is cut by; -1: nothing is cut.
int class_of_most_work(const Problem& problem, const SpmdProgram& spmd);

}  // namespace hetsynth::synth
