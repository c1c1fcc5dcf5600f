// Shares: how the granules of every dimension class are dealt out to the devices.
#pragma once
#include <cstdint>
#include <vector>

#include "synth/classes.h"

namespace hetsynth::synth {

/// Granules by [mesh axis][class][coordinate along the axis]. On every axis every class sums to its granule count.
using Shares = std::vector<std::vector<std::vector<int64_t>>>;

/// Whole granules nearest to the wanted fractions, by largest remainder; ties go to the device that comes first.
/// `fractions` need not be normalised.
std::vector<int64_t> round_shares(int64_t granules, const std::vector<double>& fractions);

/// The same fractions for all classes: by [mesh axis][coordinate].
Shares common_shares(const DimensionClasses& classes, const std::vector<std::vector<double>>& fractions);

}  // namespace hetsynth::synth
