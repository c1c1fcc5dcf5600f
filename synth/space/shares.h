// Shares: how the granules of every dimension class are dealt out to the devices.
#pragma once
#include <cstdint>
#include <vector>

#include "synth/space/dimension_classes.h"

namespace hetsynth::synth {

/// Granules by [mesh axis][class][coordinate along the axis]. On every axis every class sums to its granule count.
using Shares = std::vector<std::vector<std::vector<int64_t>>>;

/// What a mesh axis cuts: -1 nothing; a dimension class; or the parts of a class that axis 0 has left it
/// (dsl/spmd/nested_cut.h).
using CutClass = int;
constexpr CutClass parts_of(int class_id) { return -2 - class_id; }
constexpr bool cuts_parts(CutClass cut) { return cut <= -2; }
/// The class itself; -1: none.
constexpr int class_of(CutClass cut) { return cuts_parts(cut) ? -2 - cut : cut; }

/// Where share `at` of a part of so many granules begins, if the part is divided in proportion to the shares of the
/// whole: rounded, so that each share is less than one granule from its due. `at` may be the number of shares.
int64_t bound_in_part(int64_t granules, const std::vector<int64_t>& shares, size_t at);

/// Whole granules nearest to the wanted fractions, by largest remainder; ties go to the device that comes first.
/// `fractions` need not be normalised.
std::vector<int64_t> round_shares(int64_t granules, const std::vector<double>& fractions);

/// The same fractions for all classes: by [mesh axis][coordinate].
Shares common_shares(const DimensionClasses& classes, const std::vector<std::vector<double>>& fractions);

}  // namespace hetsynth::synth
