// The seam between generated programs and the way ranks exchange data. One implementation works in shared memory;
// others may use a network.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/ir/space.h"
#include "runtime/rank/left_out.h"
#include "runtime/rank/step_trace.h"

namespace hetsynth {

enum class CollectiveKind : uint8_t {
  all_gather,
  all_reduce,
  reduce_scatter,
  all_to_all,
  broadcast,
  send,
  halo_exchange
};
enum class ElementType : uint8_t { f32 = 0, i32 = 1, bf16 = 2, fp16 = 3 };  ///< numbered as in codegen/interface/abi.h
enum class Reduction : uint8_t { sum = 0, max = 1, average = 2, min = 3, product = 4 };

std::string_view name(CollectiveKind kind);

/// One rank's call of a collective over the ranks of a mesh axis (its group, in coordinate order). Sizes are in
/// elements.
///  all_gather, reduce_scatter   the whole tensor is [outer, bounds.back(), inner], cut in the middle by `bounds`
///  all_reduce, broadcast        `count` elements
///  send                         `count` elements; coordinates `root` and `to` alone meet. The one has a source, the
///                               other a destination
///  all_to_all                   the whole tensor is [outer, first, middle, second, inner]; cut in `first` by `bounds`
///  and in `second` by `bounds_to`
///                               if from_first, else cut in `second` by `bounds` before and in `first` by `bounds_to`
///                               after
///  halo_exchange                the whole tensor is [outer, bounds.back(), inner], cut in the middle by `bounds`; each
///                               rank gets its range of held_with_halo
/// Reductions add in coordinate order, so that every rank, and every run, gets the same bits; hierarchical ones so in
/// each host, rounded to the type, and then over the hosts.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::all_reduce;
  int id = 0;  ///< number of the instruction
  int axis = 0;
  ElementType type = ElementType::f32;
  Reduction reduce = Reduction::sum;
  int root = 0;  ///< broadcast, send: coordinate
  int to = 0;    ///< send: coordinate
  bool from_first = true;
  int64_t count = 0;
  int64_t outer = 1, first = 1, middle = 1, second = 1, inner = 1;
  int64_t before = 0, after = 0;               ///< halo_exchange: elements of the cut dimension around each part
  std::span<const int64_t> bounds, bounds_to;  ///< group size + 1 entries
  /// Of all but send and halo_exchange: by coordinate, the number of the host in the group, from 0, never decreasing.
  /// Not empty: the call is hierarchical.
  std::span<const int64_t> hosts{};
  const void* source = nullptr;
  void* destination = nullptr;
  StepPlace place = {};  ///< in a step that is traced
};

/// "all_reduce of instruction 12, axis 0, 4096 f32, sum".
std::string text(const CollectiveCall& call);
/// Names the first of some calls that are carried out together, and how many more there are.
std::string text(std::span<const CollectiveCall> calls);
/// Whether two ranks called the same thing: everything but the buffers.
bool same_call(const CollectiveCall& a, const CollectiveCall& b);

/// Of the dimension that a halo_exchange's tensor is cut in, what a member holds afterwards: its own part with `before`
/// elements in front of it and `after` behind it, as far as the tensor goes; nothing if its own part is empty.
Range held_with_halo(const CollectiveCall& call, int member);

/// Whether a group of cpu devices and GPUs carries the call out in levels: the GPUs among themselves, the first of them
/// with the cpu ranks. Averages need the number of all ranks at once, and cut tensors would not travel less.
bool reduces_among_leaders(const CollectiveCall& call);

/// Those that take part in such calls: the members without all GPUs but the first, if there are other devices among
/// them. `on_gpu`: by rank; empty: none.
std::vector<int> leaders_of(const std::vector<int>& members, const std::vector<bool>& on_gpu);

/// Where a rank's time went since the start of the run.
struct RankTimes {
  double compute_seconds = 0;   ///< between collectives
  double throttle_seconds = 0;  ///< slept to act as a device with `duty` below 1
  double idle_seconds = 0;      ///< waited for other ranks
  double transfer_seconds = 0;  ///< moved or reduced data
  int64_t moved_bytes = 0;      ///< written by this rank in collectives
  double data_seconds = 0;      ///< waited for samples and copied them in, before the step's program began
  ColumnWork columns = {};      ///< a part of computing; of ranks that may leave columns out
};

/// One rank's view of the others. Called from that rank's thread only.
class Communicator {
 public:
  virtual ~Communicator() = default;
  /// Carries out a collective. False: the run is being aborted, the data are not valid, and the rank must leave its
  /// step.
  virtual bool run(const CollectiveCall& call) = 0;
  /// The next `members` calls, of which the first has this number, are carried out together and beside what the rank
  /// does, until `end` of the same number. Until then nobody reads their destinations nor writes to their sources and
  /// destinations. None of them reads what another writes. False as for `run`.
  virtual bool begin(int /*id*/, int /*members*/) { return true; }
  virtual bool end(int /*id*/) { return true; }
  virtual int rank() const = 0;
  /// Ranks along a mesh axis, and this rank's place among them; 0 for an axis that the mesh does not have.
  virtual int group_size(int axis) const = 0;
  virtual int coordinate(int axis) const = 0;
  virtual const RankTimes& times() const = 0;
  /// Time spent between these two calls and outside of collectives counts as compute.
  virtual void begin_step() = 0;
  virtual void end_step() = 0;
  /// Exchanges are noted there from now on; null: nowhere. Between steps.
  virtual void trace_to(StepTrace* /*trace*/) {}
};

}  // namespace hetsynth
