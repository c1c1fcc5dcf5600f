// The stage `generate`: the readable source of one device, and where its tensors lie.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dsl/cluster/cluster.h"
#include "dsl/spmd/spmd.h"

namespace hetsynth {

struct SourceFile {
  std::string name;  ///< "rank1.cpp", "rank1_kernels.cu"
  std::string text;
};

/// A tensor the runtime reads or writes between steps.
struct Slot {
  NodeId node = -1;
  ValueId value = -1;
  int64_t offset_bytes = 0;   ///< in the arena
  std::vector<Range> ranges;  ///< part of the logical tensor, per dimension
  DType dtype = DType::f32;
};

/// A tensor and what it takes in a rank's arena.
struct NamedBytes {
  std::string name;
  int64_t bytes = 0;
};

/// A piece of a step whose beginning the text marks (hetsynth_mark); it ends where the next one begins.
struct MarkedWork {
  enum class Kind : uint8_t { computes, communicates, waits };
  /// An instruction of the plan, and the turn of its loop. In a loop of the text the mark tells the turn
  /// (told_by_mark).
  struct Part {
    int instruction = -1;
    int64_t turn = -1;  ///< -1: the instruction runs once
  };
  Kind kind = Kind::computes;
  std::vector<Part> parts =
      {};                     ///< several where operators share a loop nest, in an order in which they may be computed
  bool told_by_mark = false;  ///< turns of the parts
  std::string what = {};      ///< where there is no part, in words
};

/// A matrix product in the text, of an activation with a weight or of a gradient by one of both, that may be computed
/// without some columns of the activation (dsl/ir/weight_columns.h).
struct ColumnProduct {
  enum class Dim : uint8_t { row, column, sum };
  int mark = -1;       ///< of its work
  int set = 0;         ///< of the columns, in DeviceProgram::column_sets
  Dim dim = Dim::sum;  ///< of hetsynth_matmul: m, n or k
  /// Its index j is column first + (j / inner) % count.
  int64_t first = 0, count = 1, inner = 1;
  int weight = -1;            ///< operand that is a weight: 0 a, 1 w; -1: none
  bool sums_forward = false;  ///< adds the columns up, in the forward pass
};

struct DeviceProgram {
  int rank = 0;
  DeviceKind kind = DeviceKind::cpu;
  std::string architecture;       ///< cuda: "sm_80"
  std::vector<SourceFile> files;  ///< host source first; cuda: then the kernels
  /// cuda: collectives come in the order of gather_buckets (dsl/spmd/buckets.h) instead of the plan's; on all ranks of
  /// a plan or on none.
  bool buckets = false;
  int64_t arena_bytes = 0;
  std::vector<Slot>
      leaves;  ///< inputs are written before each step; parameters and states hold the new contents after it
  std::vector<Slot> outputs;                   ///< named outputs, readable after a step
  std::vector<NamedBytes> largest_tensors;     ///< of the arena, the largest first, three at most
  Slot loss;                                   ///< scalar f32, readable after a step; node -1 if the program has none
  std::vector<MarkedWork> marks;               ///< by number of the mark; none if none were asked for
  std::vector<ColumnProduct> column_products;  ///< cpu devices, where there are marks
  std::vector<int64_t> column_sets;            ///< by set: how many columns it has
};

/// Where another program of the rank keeps what a program keeps, too: both lie in one memory, and run in turn.
struct LeafPlaces {
  std::map<NodeId, int64_t> offset_bytes;  ///< of leaves
  int64_t end_bytes = 0;                   ///< all else lies behind
};

/// Source and memory plan of one rank. The entry point is `extern "C" int hetsynth_step(HetsynthContext*)`. `marked`:
/// the text of a cpu device says where which instructions begin, so that a run can measure them. `places`: of some
/// leaves of a cpu device; null: they lie as they come.
DeviceProgram generate(const Program& reference, const SpmdProgram& program, const Cluster& cluster, int rank,
                       bool marked = false, const LeafPlaces* places = nullptr);

/// Where the leaves that the other program keeps (parameters and states) are to lie in a program that keeps the same
/// parts of the same tensors, by their names; none: some of what it keeps is not kept by the other one.
std::optional<LeafPlaces> places_beside(const Program& reference, const DeviceProgram& program,
                                        const Program& other_reference, const DeviceProgram& other);

}  // namespace hetsynth
