// The SPMD program: what every device runs, as data. Everything a rank does follows from (reference program, SPMD
// program, rank). Synthesis writes it, people edit it, the verifier checks it, the generator turns it into source.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/ir/program.h"

namespace hetsynth {

/// Named axes over the devices; rank = row-major index over the axes, the last axis varying fastest.
struct Mesh {
  struct Axis {
    std::string name;
    int size;
    bool operator==(const Axis&) const = default;
  };
  std::vector<Axis> axes;
  int device_count() const;
  /// Coordinate of a rank along an axis.
  int coordinate(int rank, int axis) const;
  /// Ranks that differ from `rank` only along `axis`, in coordinate order, `rank` included.
  std::vector<int> group(int rank, int axis) const;
  bool operator==(const Mesh&) const = default;
};

/// Boundary table: how `extent` units are cut over the devices of one mesh axis; device i of the axis holds units
/// [bounds[i], bounds[i+1]). bounds[0] = 0, bounds[n] = extent, non-decreasing; empty shares are legal. A dimension of
/// D elements cut by the table has D / extent elements per unit.
///
/// A table may cut differently in each group of the axis: the groups at coordinate j of axis `by` then cut by rows[j],
/// and `bounds` is empty. Rows cover the extent each, or lie one behind the other (dsl/spmd/nested_cut.h).
struct BoundaryTable {
  std::string name;
  int axis = 0;
  int64_t extent = 0;
  std::vector<int64_t> bounds{};
  int by = -1;                               ///< -1: all groups cut alike
  std::vector<std::vector<int64_t>> rows{};  ///< one per coordinate of `by`
  bool operator==(const BoundaryTable&) const = default;

  /// How the group of a rank cuts.
  const std::vector<int64_t>& bounds_of(const Mesh& mesh, int rank) const {
    return by < 0 ? bounds : rows.at(size_t(mesh.coordinate(rank, by)));
  }
};

enum class ReduceOp : uint8_t { sum, max, average, min, product };

/// How one mesh axis holds a tensor.
struct Placement {
  enum class Kind : uint8_t { replicated, sharded, partial, stage };
  Kind kind = Kind::replicated;
  int dim = -1;                     ///< sharded: dimension of the tensor
  int table = -1;                   ///< sharded: index of the boundary table
  ReduceOp reduce = ReduceOp::sum;  ///< partial: sum or max
  int at = -1;  ///< stage: the one coordinate whose devices hold the tensor; the others hold nothing
  /// sharded: elements of the dimension that a device holds besides, before and after its part, as far as the tensor
  /// goes (a halo). A device whose own part is empty holds none.
  int64_t before = 0, after = 0;
  bool operator==(const Placement&) const = default;

  static Placement replicated() { return {}; }
  static Placement sharded(int dim, int table) { return {Kind::sharded, dim, table, ReduceOp::sum}; }
  static Placement overlapping(int dim, int table, int64_t before, int64_t after) {
    return {Kind::sharded, dim, table, ReduceOp::sum, -1, before, after};
  }
  static Placement partial(ReduceOp reduce) { return {Kind::partial, -1, -1, reduce}; }
  static Placement stage(int at) { return {Kind::stage, -1, -1, ReduceOp::sum, at}; }
  /// Whether devices hold parts of their neighbours'.
  bool overlaps() const { return before > 0 || after > 0; }
};
using Placements = std::vector<Placement>;  ///< one per mesh axis; why_not_held tells which go together

/// A distributed value: one placement of one logical tensor. Defined once: by a binding of a leaf or by one
/// instruction. One tensor may exist as several values at once. The claim (node, placements) is checked, never trusted,
/// by the verifier.
using ValueId = int;
struct Value {
  std::string name;  ///< unique: the node's name, then "@" and the placement: "h1@dp:S0"
  NodeId node = -1;
  Placements placements;
  bool operator==(const Value&) const = default;
};

enum class Opcode : uint8_t {
  compute,         ///< local part of node `node`; operands in the order of its inputs
  slice,           ///< replicated -> sharded(dim, table) along `axis`; no communication
  to_partial,      ///< replicated or stage(root) -> partial(sum): coordinate `root` keeps the value, the others hold
                   ///< zeros
  all_gather,      ///< sharded(dim, table) -> replicated
  all_reduce,      ///< partial(reduce) -> replicated
  reduce_scatter,  ///< partial(reduce) -> sharded(dim, table)
  all_to_all,      ///< sharded(dim, table) -> sharded(to_dim, to_table)
  broadcast,       ///< replicated or stage(root) -> replicated: everyone takes coordinate `root`'s copy
  send,            ///< stage(root) -> stage(to): coordinate `root` sends, `to` receives, the others take no part
  halo_exchange,   ///< sharded(dim, table) -> the same with `before` and `after` elements of the neighbours' parts
};

/// How a collective is carried out; what it means is the same. native, padded and grouped send uneven shares around one
/// ring; hierarchical goes within hosts first and between them afterwards (dsl/spmd/hosts.h).
enum class Realisation : uint8_t { native, padded, grouped, hierarchical };

std::string_view name(Opcode opcode);
/// Whether devices exchange data: all but compute, slice and to_partial.
bool communicates(Opcode opcode);
std::string_view name(ReduceOp reduce);
std::string_view name(Realisation realisation);

/// How one mesh axis divides the iteration space of a compute instruction: not at all, one factor by a table, or by
/// leaving the instruction to the devices of one coordinate (a pipeline stage). An operand mentioned by the factor may
/// come cut accordingly (cut_of, or with a halo by window_cut_of) or replicated; partial operands pass through where
/// the body is additive in them. A stage reads what it holds alone and what all hold.
struct Split {
  int factor = -1;  ///< -1: every device of the axis that takes part computes the whole
  int table = -1;
  int stage = -1;  ///< -1: all coordinates take part
  bool operator==(const Split&) const = default;
  static Split on_stage(int stage) { return {-1, -1, stage}; }
};

struct Instruction {
  Opcode opcode = Opcode::compute;
  ValueId result = -1;
  std::vector<ValueId> operands;
  NodeId node = -1;                ///< compute: the logical node it claims to implement
  std::vector<Split> splits;       ///< compute: one per mesh axis
  int axis = -1;                   ///< all but compute
  int dim = -1, table = -1;        ///< slice, all_gather, reduce_scatter, halo_exchange, source of all_to_all
  int to_dim = -1, to_table = -1;  ///< target of all_to_all
  ReduceOp reduce = ReduceOp::sum;
  Realisation realisation = Realisation::native;
  int root = 0;
  int to = 0;                     ///< send: the coordinate that receives
  int64_t before = 0, after = 0;  ///< halo_exchange: as in Placement
  /// A collective that has a bucket may run beside computing. Collectives of one bucket stand one behind the other,
  /// begin together, and are waited for where their results are read (dsl/spmd/buckets.h). -1 means that the
  /// instruction is carried out in its place.
  int bucket = -1;
  std::string cause;  ///< why a collective is there, for people; not part of the meaning
  bool operator==(const Instruction&) const = default;
};

/// The turns of a loop where they overlap: the schedule of a pipeline. A loop without one takes its turns one after the
/// other.
struct LoopSchedule {
  /// One part of the loop's instructions in one turn.
  struct Run {
    int part = 0;
    int64_t turn = 0;
    bool operator==(const Run&) const = default;
  };
  int loop = -1;
  std::vector<int> parts;  ///< how many of the loop's instructions each part has, in their order
  std::vector<Run> order;  ///< the same for all ranks, each of which passes over what it takes no part in
  bool operator==(const LoopSchedule&) const = default;
};

struct SpmdProgram {
  Mesh mesh;
  std::vector<BoundaryTable> tables;
  std::vector<Value> values;
  std::vector<ValueId> leaves;  ///< values of inputs, parameters and states as they are at the start of the step
  std::vector<Instruction> instructions;  ///< in order of execution, the same for all ranks
  std::vector<std::pair<NodeId, ValueId>>
      finals;         ///< per update target: the value holding its new contents, placed as its (single) leaf value
  ValueId loss = -1;  ///< replicated
  /// Per carry of a loop: the value it takes over at the end of a turn, placed as the carry's own value.
  std::vector<std::pair<NodeId, ValueId>> carried = {};
  /// Each loop whose turns overlap has one.
  std::vector<LoopSchedule> schedules = {};
  /// Where loops are written out (dsl/spmd/unroll.h), these are the values that a carry took over, turn by turn. Each
  /// may lie where its operator's first operand was, as the sum so far of a sum. Not part of the meaning.
  std::vector<ValueId> taken_over = {};
  /// By rank: the number of its host, from 0, never decreasing. Empty where no collective is hierarchical.
  std::vector<int> hosts = {};
  bool operator==(const SpmdProgram&) const = default;
};

/// The loop in whose turns an instruction runs; -1: it runs once. What a loop's node computes, and what moves its
/// result, runs in every turn; a tensor that the loop fills turn by turn is moved behind it.
int loop_of(const Program& reference, const SpmdProgram& program, const Instruction& instruction);

/// Instructions [first, last) that run in every turn of a loop.
struct LoopSpan {
  int loop;
  int first, last;
};
/// The spans in order. A loop whose instructions do not stand one behind the other has several.
std::vector<LoopSpan> loop_spans(const Program& reference, const SpmdProgram& program);

/// Elements per table unit of a dimension of `extent` elements. Throws UserError if the table does not divide it.
int64_t unit_of(const BoundaryTable& table, int64_t extent);
/// The bounds in elements, as the group of `rank` cuts its part of such a dimension: from 0. Throws UserError likewise.
std::vector<int64_t> bounds_in_elements(const SpmdProgram& program, int table, int64_t extent, int rank);

/// Whether the rank holds anything of a value placed so: it does unless the value lies on another stage.
bool holds(const Mesh& mesh, const Placements& placements, int rank);
/// Whether the rank carries out its part of the instruction, by the placements that the plan says its operands have:
/// computes on its stage, moves what it holds, sends or receives.
bool takes_part(const SpmdProgram& program, const Instruction& instruction, int rank);

/// Half-open range per dimension that `rank` holds of a tensor of this shape with these placements. Empty ranges where
/// it holds nothing (a scalar has no ranges: see holds()).
std::vector<Range> local_ranges(const SpmdProgram& program, const Placements& placements, const Shape& shape, int rank);
Shape local_shape(const SpmdProgram& program, const Placements& placements, const Shape& shape, int rank);

/// Half-open range per factor that `rank` executes of a compute instruction.
std::vector<Range> factor_ranges(const SpmdProgram& program, const Space& space, const std::vector<Split>& splits,
                                 int rank);

/// "R", "S0", "S2~1~1" (with 1 element before and 1 after), "P+", "Pmax", "@2" (stage 2) per axis, as "dp:S0,tp:R".
std::string text(const Mesh& mesh, const Placements& placements);

/// The placements a compute instruction's result has, given its operands'; nullopt with a reason if the rules do not
/// allow it. Rules (per axis): a split parallel factor cuts the output; a split sum/max factor leaves it partial;
/// without a split the output is replicated, or partial(sum) if the set of partial operands enters the body additively.
/// Split and partial operands together on one axis are refused, except that a split parallel factor or no split may
/// combine with partial operands on OTHER axes. Left to a stage, it leaves the output there.
std::optional<Placements> infer_placements(const SpmdProgram& program, const Program& reference,
                                           const Instruction& instruction, std::string* reason);

/// One line per instruction. Stable.
std::string text(const SpmdProgram& program, const Program& reference);

}  // namespace hetsynth
