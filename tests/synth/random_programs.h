// Random small reference programs and clusters, drawn through RapidCheck so that failures shrink.
#pragma once
#include <utility>

#include "dsl/cluster/cluster.h"
#include "dsl/ir/program.h"
#include "dsl/spmd/spmd.h"

namespace hetsynth::testing_support {

/// A batch, one or two parameters, up to `max_ops` operators of mixed kinds, a scalar loss, and an update of every
/// parameter. `windows`: some slide over rows. Call inside a property.
Program random_program(int max_ops, bool windows = true);
/// The same of tensors with one column, most operators being windows that slide over rows.
Program random_windows(int max_ops);

/// Two to four devices of random speeds, with a link slow or fast against them. Call inside a property.
Cluster random_cluster();

/// Up to three by two devices, on one host or with a host for every row, and a mesh of as many axes.
std::pair<Cluster, Mesh> random_mesh();

}  // namespace hetsynth::testing_support
