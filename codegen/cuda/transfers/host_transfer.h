// What a rank does in a hierarchical collective (dsl/spmd/hosts.h): within its host, between the hosts' leaders, and
// within its host again.
#pragma once
#include "codegen/cuda/transfers/transfers.h"

namespace hetsynth::codegen::cuda {

/// Appends to the transfer of the rank's group, which has devices on several hosts or several on one.
void plan_by_host(const SpmdProgram& program, const LocalProgram& local, const LocalOp& op, Transfer& out);

}  // namespace hetsynth::codegen::cuda
