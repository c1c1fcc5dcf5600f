// The data movement of collectives in shared memory: what one member of a group reads from the others' sources and
// writes.
#pragma once
#include <cstdint>
#include <span>

#include "runtime/collectives/communicator.h"

namespace hetsynth {

/// The part of a collective that group member `member` carries out, given every member's call. All members doing their
/// part completes it; parts may run at the same time. Returns the bytes written.
int64_t transfer(std::span<const CollectiveCall* const> calls, int member);

/// Throws UserError if the numbers of a call cannot be meant: tables that do not fit the group, negative sizes, an
/// unknown reduction.
void check_call(const CollectiveCall& call, int members);

}  // namespace hetsynth
