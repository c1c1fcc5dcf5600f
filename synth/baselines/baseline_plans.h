// Plans that need no search, which people would write by hand: what `plan --compare` and tests hold a plan against.
#pragma once
#include "dsl/spmd/plan.h"

namespace hetsynth {

/// The plan of one device, the fastest of the cluster: every tensor whole, a mesh of one. The plan names that device
/// only.
Plan single_device_plan(const Program& reference, const Cluster& cluster);

/// How a plan that is not searched deals out the work.
enum class RatioRule {
  even,
  proportional,  ///< inverse to the time a device would need for the whole step alone
};

/// Data parallelism over all devices: the batch is cut, parameters and states are replicated, gradients are
/// all-reduced. Where the batch has no dimension to cut, everything is computed by every device. Throws UserError with
/// ExitCode::infeasible if it does not fit into memory.
Plan data_parallel_plan(const Program& reference, const Cluster& cluster, RatioRule rule = RatioRule::even);

/// Tensor parallelism over all devices, in the manner of Megatron: matrix products with parameters are cut in another
/// dimension than the batch, nothing is cut along the batch, and the rest is the cheapest plan under that. Throws
/// UserError with ExitCode::infeasible if it does not fit into memory.
Plan tensor_parallel_plan(const Program& reference, const Cluster& cluster, RatioRule rule = RatioRule::even);

}  // namespace hetsynth
