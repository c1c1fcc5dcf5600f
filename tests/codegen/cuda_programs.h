// Programs the tests of the CUDA generator run: every operator sample at once, cut over ranks in every way its
// iteration space allows.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "dsl/cluster/cluster.h"
#include "dsl/ir/interpreter.h"
#include "dsl/spmd/spmd.h"

namespace hetsynth::testing_support {

struct SampleProgram {
  Program program;  ///< one operation per sample, each with leaves of its own; every result is a named output
  std::map<NodeId, OperatorSample::Domain> domains;  ///< of the leaves' values
};

/// All samples of the operator list.
SampleProgram all_samples();

/// Every operation split over one axis of `ranks` by one of its factors (which one: `variant`), with uneven and empty
/// shares; results come back whole by the different collectives and realisations.
SpmdProgram split_samples(const Program& reference, int ranks, int variant);

/// Random contents of a leaf.
Array random_contents(const Node& leaf, const OperatorSample::Domain& domain, uint64_t seed);

/// Cuda devices of these relative speeds on one host.
Cluster cuda_cluster(const std::vector<double>& speeds);

}  // namespace hetsynth::testing_support
