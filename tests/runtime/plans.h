// Plans of many kinds for one program: what the end-to-end tests run.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dsl/spmd/plan.h"

namespace hetsynth::testing {

/// Cpu devices of the given relative speeds that all run at full duty: unequal on paper, so that shares become uneven
/// and tests stay quick.
Cluster cpu_cluster(const std::vector<double>& speeds);

/// Every operator is split wherever it has a factor of the same class as dimension `dim` of leaf `leaf`, and leaves are
/// kept cut likewise: the batch gives data parallelism, a hidden width Megatron's column and row cuts, the vocabulary a
/// cut embedding and loss.
Plan split_plan(const Program& reference, const Cluster& cluster, const std::string& leaf, int dim,
                const std::vector<double>& fractions);

/// Starts from "everything everywhere" and changes operators and leaves at random where the result can still be
/// converted.
Plan random_plan(const Program& reference, const Cluster& cluster, const std::vector<double>& fractions, uint64_t seed);

}  // namespace hetsynth::testing
