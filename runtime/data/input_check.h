// What a batch source gave is looked at before a rank computes with it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "dsl/ir/program.h"

namespace hetsynth {

/// Throws UserError (exit code 1) unless the part `ranges` of an input, dense and row-major in `values`, holds the
/// numbers and indices that the input declares (takes_real and takes_whole in dsl/ir/data_source.h). The message names
/// the rank, as `rank_name` calls it, the step, and the sample by its number in the run, that of the input's first one
/// in the step being `first_sample`.
void check_input_values(const Node& input, std::span<const Range> ranges, std::span<const std::byte> values,
                        int64_t step, int64_t first_sample, const std::string& rank_name);

}  // namespace hetsynth
