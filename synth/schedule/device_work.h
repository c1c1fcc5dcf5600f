// How much of the work of a plan each device does.
#pragma once
#include <vector>

#include "synth/model/problem.h"

namespace hetsynth::synth {

/// Each device's floating-point operations: what stands for the shares of all classes in one number. Ones if there are
/// none.
std::vector<double> device_work(const Problem& problem, const Shares& shares, const Choices& choices);

/// The class that most of a plan's time for computing on the first axis is cut by; -1: nothing is cut.
int class_of_most_work(const Problem& problem, const SpmdProgram& spmd);

}  // namespace hetsynth::synth
