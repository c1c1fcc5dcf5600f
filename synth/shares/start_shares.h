// What devices can do on their own, and the shares that the alternation of search and linear program starts from.
#pragma once
#include <vector>

#include "synth/model/problem.h"

namespace hetsynth::synth {

/// Inverse of the time, in seconds, that each device would need for the whole step alone.
std::vector<double> device_speeds(const Problem& problem);

/// Index of the device that runs the whole step fastest.
int fastest_device(const Problem& problem);

/// Seconds that no sum of operators' seconds is below: each is spread over all devices without loss.
double ideal_seconds(const Problem& problem);

/// Seconds that no step is below, whatever runs beside what: the least in which the devices, each busy all the time
/// with parts that suit it, do all of the work (a linear program, as fractional makespan on unrelated machines).
/// Devices of a cluster in which operators are equally fast relative to each other need ideal_seconds.
double least_busy_seconds(const Problem& problem);

/// Parts by device that the alternation starts from, not normalised: by speed, even, by products per second, memory
/// bandwidth and memory, and the fastest devices alone; where all are alike, even; where the user gave them, those. It
/// can get stuck, so there are several.
std::vector<std::vector<double>> parts_to_start_at(const Problem& problem);

/// Sums of the devices' parts by mesh axis and coordinate; on every axis they add up to 1.
std::vector<std::vector<double>> axis_fractions(const Problem& problem, const std::vector<double>& by_device);

}  // namespace hetsynth::synth
