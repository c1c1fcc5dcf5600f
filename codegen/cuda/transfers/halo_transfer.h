// What a rank does in a halo exchange: its own part goes to its place in the result, and the elements around it come
// from whoever owns them.
#pragma once
#include "codegen/cuda/transfers/transfers.h"

namespace hetsynth::codegen::cuda {

/// Appends to the transfer of the rank's group, of more than one rank. Shares may be empty or shorter than the halo, so
/// that a rank may send to and receive from ranks several places away; nobody is sent what it has itself.
void plan_halo_exchange(const SpmdProgram& program, const LocalValue& from, const LocalValue& to,
                        const Instruction& instruction, int rank, Transfer& out);

}  // namespace hetsynth::codegen::cuda
