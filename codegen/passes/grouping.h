// The stage `group`: which operators run together in one loop nest, and the order of everything on a rank.
//
// A group is a row-wise nest: all loops but the last run over rows, the last one inside of a row. Softmax and layer
// normalisation with their neighbours, chains of elementwise operators and optimizer updates all have this form; it is
// recognised from accesses alone. Products and attention (codegen/passes/attention.h) are groups of their own.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "codegen/passes/attention.h"
#include "codegen/passes/contraction.h"
#include "codegen/passes/convolution.h"
#include "codegen/passes/layout.h"

namespace hetsynth::codegen {

struct Loop {
  std::string name;
  Range range;  ///< global
  int64_t extent() const { return range.hi - range.lo; }
};

enum class Role : uint8_t {
  element,     ///< a value at every point of the nest
  row,         ///< a value per row
  row_reduce,  ///< reduces the innermost loop to a value per row, readable later in the row
  accumulate,  ///< reduces other loops into memory; not readable inside of the group
};

struct Member {
  int op = -1;
  std::vector<int> loop;    ///< per factor of the operator: loop of the group; -1: a single value, or looked up
  std::vector<int> source;  ///< per input: the member that computes it inside the group, or -1: read from memory
  Role role = Role::element;
  /// Elements of level l are computed in the l-th pass over the row; rows of level l after it, level -1 before all
  /// passes.
  int level = 0;
  bool stored = false;      ///< wanted outside of the group
  bool over_inner = false;  ///< accumulate: runs inside of the row rather than once per row
};

struct Group {
  enum class Kind : uint8_t { loops, product, convolution, attention, collective } kind = Kind::loops;
  std::vector<Loop> loops;      ///< outermost first
  std::vector<Member> members;  ///< in an order in which each comes after what it reads
  int passes = 0;               ///< over each row
  Contraction product;
  LocalConvolution convolution;
  std::optional<FusedAttention> attention;
  int op() const { return members.front().op; }
};

struct GroupingOptions {
  int64_t row_bytes = 128 << 10;  ///< room for the row buffers of a group
  int64_t longest_row = 16384;    ///< elements; longer rows are passed over once only
  bool fuse_attention = true;     ///< scores exist block by block
  /// A loop nest has at most so many operators, and a longer chain becomes several nests. Without this limit generation
  /// takes the square of a chain's length, and a chain of 2,000 operators runs a third as fast and compiles three times
  /// as long (200 steps 0.9 to 1.4 s instead of 0.3 s, compiling 3.7 s instead of 1.2 s).
  size_t most_members = 256;
};

/// Groups in order of execution. Each nest of `attention` becomes one group, unless the layouts forbid it.
std::vector<Group> group(const LocalProgram& program, const Layouts& layouts,
                         const std::vector<FusedAttention>& attention, const GroupingOptions& options = {});

}  // namespace hetsynth::codegen
