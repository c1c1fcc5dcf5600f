// Random small reference programs and clusters, drawn through RapidCheck so that failures shrink.
#pragma once
#include "dsl/ir/program.h"
#include "dsl/spmd/cluster.h"

namespace hetsynth::testing_support {

/// A batch, one or two parameters, up to `max_ops` operators of mixed kinds, a scalar loss, and an update of every
/// parameter. Call inside a property.
Program random_program(int max_ops);

/// Two to four devices of random speeds, with a link slow or fast against them. Call inside a property.
Cluster random_cluster();

}  // namespace hetsynth::testing_support
