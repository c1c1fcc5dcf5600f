// Gradients that devices add up together: their collectives are put one behind the other, where the last gradient of
// the bucket is ready, and start as one.
//
// A collective costs a latency, and what comes back last delays the update by its own length. With T bytes of gradients
// in buckets of S bytes, at latency a and bandwidth B, that is T/S a + S/B, least at S = sqrt(a B T). The text of a
// rank follows from its plan alone, which knows no links, so a B is taken as 1 MiB: between that of hosts (10 us at 25
// GB/s) and that of NVLink (10 us at 400 GB/s). GPT-2's 0.5 GB make buckets of 22 MiB.
#pragma once
#include <vector>

#include "dsl/spmd/spmd.h"

namespace hetsynth {

struct BucketedProgram {
  SpmdProgram program;         ///< as given, with the collectives of a bucket one behind the other
  std::vector<int> bucket_of;  ///< by instruction of `program`; -1: in none
};

/// Bytes of a bucket where so many bytes of gradients are added up along an axis.
int64_t bucket_bytes(int64_t gradient_bytes);

/// A bucket is of one axis, hierarchical or not, and holds two or more all-reduces and reduce-scatters of gradients: of
/// what the backward pass makes and nothing but the update needs. It is closed when it is full, and before anything
/// reads of it. Expects a program without loops (dsl/spmd/unroll.h); the same for all ranks.
BucketedProgram gather_buckets(const Program& reference, const SpmdProgram& program);

}  // namespace hetsynth
