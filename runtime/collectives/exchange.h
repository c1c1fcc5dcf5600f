// How the ranks of a group exchange data: one implementation in shared memory, one by messages between processes.
#pragma once
#include <span>

#include "runtime/collectives/communicator.h"

namespace hetsynth {

/// One rank's part of all exchanges. It is called from one thread at a time, except that calls may be carried out on
/// one while others are posted and finished on another.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// Carries calls out together: either one, or some of one axis of which none reads what another writes, each an
  /// all_reduce, a reduce_scatter or an all_gather that is not hierarchical. False: the run is being aborted, the data
  /// are not valid.
  virtual bool carry_out(std::span<const CollectiveCall> calls) = 0;
  /// Whether sends can be posted: begun at once, beside whatever else is carried out.
  virtual bool posts() const { return false; }
  /// Begins to send, or to receive what is sent. The source may be overwritten afterwards.
  virtual bool post(const CollectiveCall& /*call*/) { return false; }
  /// Waits until what a posted call receives is there, and adds the time of waiting and the bytes to `times`. False as
  /// for carry_out.
  virtual bool finish(int /*id*/, RankTimes& /*times*/) { return true; }
  /// Moves what is posted on; whether some of it is under way. From any thread.
  virtual bool progress() { return false; }
  virtual int rank() const = 0;
  virtual int group_size(int axis) const = 0;
  virtual int coordinate(int axis) const = 0;
  /// Idle and transfer time, and bytes moved. Not while calls are carried out.
  virtual const RankTimes& times() const = 0;
};

/// Whether calls of this sort may be carried out together with others.
bool may_join(const CollectiveCall& call);

}  // namespace hetsynth
