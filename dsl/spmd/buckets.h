// Gradients that devices add up together, and new parameters that they gather together: the collectives of a bucket are
// put one behind the other, where the last of what they move is ready, and start as one.
//
// A collective costs a latency, and what comes back last delays the update by its own length. With T bytes of gradients
// in buckets of S bytes, at latency a and bandwidth B, that is T/S a + S/B, least at S = sqrt(a B T). The text of a
// rank follows from its plan alone, which knows no links, so a B is taken as 1 MiB for GPUs, between that of hosts (10
// us at 25 GB/s) and that of NVLink (10 us at 400 GB/s), and as 64 KiB for cpu devices (0.5 ms at 1 Gb/s, 50 us at 10
// Gb/s). GPT-2's 0.5 GB make buckets of 22 MiB and 6 MiB.
#pragma once
#include <vector>

#include "dsl/cluster/cluster.h"
#include "dsl/spmd/spmd.h"

namespace hetsynth {

struct BucketedProgram {
  SpmdProgram program;         ///< as given, with the collectives of a bucket one behind the other
  std::vector<int> bucket_of;  ///< by instruction of `program`; -1: in none
};

/// Bytes of a bucket where so many bytes of gradients are added up along an axis, by devices of a kind.
int64_t bucket_bytes(int64_t gradient_bytes, DeviceKind kind);

/// How collectives run beside computing. The later, the more memory for what is under way.
enum class Beside : uint8_t {
  alone,       ///< each as soon as there is what it needs
  in_buckets,  ///< those of a bucket together, where the last of what they move is ready
  ahead,       ///< and gathers of what is there before the step ahead of their readers
};

/// A bucket is of one axis, hierarchical or not, and holds two or more all-reduces and reduce-scatters of gradients: of
/// what the backward pass makes and nothing but the update needs. It is closed when it is full, and before anything
/// reads of it. On cpu devices others hold two or more all-gathers, not hierarchical, of what the update makes and
/// nothing reads before the next step, and hierarchical ones stay alone. There, gathers of what is there before the
/// step, such as parameters that devices keep parts of, begin ahead of their readers, by buckets: when the first
/// reader of a bucket comes, most_under_way are under way (as prefetching does in Zhao et al. 2023, PyTorch FSDP).
/// Expects a program without loops (dsl/spmd/unroll.h); the same for all ranks.
BucketedProgram gather_buckets(const Program& reference, const SpmdProgram& program, DeviceKind kind,
                               Beside how = Beside::ahead);
/// Returns the same program with every collective on its own.
BucketedProgram without_buckets(const SpmdProgram& program);
/// Returns the same program with the buckets that its instructions name.
BucketedProgram as_planned(const SpmdProgram& program);

/// The program of cpu devices with buckets in it: all collectives that run once may run beside computing, and those of
/// gather_buckets begin together (unless alone); so may what is sent in the turns of a loop that overlap.
SpmdProgram with_buckets(const Program& reference, const SpmdProgram& program, Beside how = Beside::ahead);

/// Largest number of a bucket.
constexpr int max_bucket = 1'000'000;
/// Buckets that may be under way at one time. Two keep a link busy; more let a device compute on where exchanges take
/// long for a while.
constexpr int most_under_way = 4;

/// Most collectives of a bucket.
constexpr int most_members = 16'384;

/// Why the last instruction may not have the bucket that it has; empty if it may. Collectives of one bucket stand one
/// behind the other, none reads what another makes, and none is in a loop. Where there are several they are
/// all-gathers, all-reduces and reduce-scatters over one axis, and not hierarchical. `met`: some instruction before has
/// that bucket.
std::string why_not_in_bucket(const Program& reference, const SpmdProgram& program, bool met);

/// Returns, by instruction, the number of the instruction before which its bucket is waited for. The number of
/// instructions means that the step ends first. An instruction in no bucket is done before the next one.
std::vector<int> waited_for_before(const Program& reference, const SpmdProgram& program);

}  // namespace hetsynth
