// The printer behind group_kernels: one fused group, element by element, row by row, or in chunks.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "codegen/cuda/kernels/kernel_writer.h"
#include "codegen/text/annotate.h"
#include "dsl/base/error.h"

namespace hetsynth::codegen::cuda {

/// Where the emitted code stands: how to reach positions, rows and columns, and where their counters are defined.
struct GroupSpot {
  Counters* row_counters = nullptr;
  Counters* column_counters = nullptr;
};

/// Writes the kernels of one group. Members are its operators, by their place in it.
class GroupPrinter {
 public:
  GroupPrinter(const KernelContext& context, const KernelGroup& group, std::string name)
      : context_(context),
        group_(group),
        name_(std::move(name)),
        arguments_(context),
        index_(index_type(context, group.ops)) {
    for (int i : group.ops) {
      const LocalOp& op = context.lowered.local.ops[i];
      comment_ += "// " + origin_text(context.lowered, op) + "\n";
      arguments_.note(op.body);
    }
    find_levels();
  }
  StepKernels print();

 private:
  const LocalOp& op(size_t member) const { return context_.lowered.local.ops[group_.ops[member]]; }
  const DomainRole& role(size_t member) const { return group_.roles[member]; }
  bool is(size_t member, DomainRole::Kind kind) const { return role(member).kind == kind; }
  bool stored(size_t member) const { return context_.stored[op(member).result]; }
  std::string element(size_t member) const { return element_name(context_, op(member)); }
  DType dtype(ValueId value) const { return context_.lowered.local.values[value].type.dtype; }
  std::string memory_type(ValueId value) const { return context_.types.memory_text(dtype(value)); }
  std::string stored_element(size_t member) const;
  bool is_max(size_t member) const { return op(member).reduction() == FactorKind::max; }
  /// Full and reducing operators: the pass over the columns in which they can first be computed. Row values: the pass
  /// before which they are.
  void find_levels();
  std::string row_counter(const GroupSpot& place, int64_t stride, int64_t extent, const std::string& wish) const;
  std::string row_word() const { return group_.reduces ? "row" : "at"; }
  std::string position_counter(const GroupSpot& place, int64_t stride, int64_t extent, const std::string& wish) const;
  std::string column_counter(const GroupSpot& place, int64_t stride, int64_t extent, const std::string& wish) const;
  std::vector<std::string> counters(const GroupSpot& place, size_t member) const;
  /// Index text if the operand is read exactly at the position (or the row) the group is at.
  std::optional<std::string> direct_index(size_t member, int input) const;
  Address address_of(const LocalOp& o, int input) const;
  std::string operand(const GroupSpot& place, size_t member, int input);
  ElementScope scope(const GroupSpot& place, size_t member);
  /// The body; for a lookup, the looked-up index is defined first and guards what it leads to.
  std::string value(Lines& lines, const GroupSpot& place, size_t member);
  /// "h_tanh_": a variable for a part of the member's value; `declared` gains it.
  std::string part_name(size_t member, const std::string& word, std::set<std::string>& declared) const;
  void define(Lines& lines, const GroupSpot& place, size_t member);
  /// Operators of the domain that the given ones need in the same pass, in order.
  std::vector<size_t> with_sources(const std::set<size_t>& wanted) const;
  bool can_vectorise() const;
  Kernel elementwise();
  /// Loads what the four elements read, and opens the loop over them. `at`: of the first of them.
  void open_vector(Lines& lines, const std::vector<std::pair<std::string, std::string>>& stores,
                   const std::string& at) const;
  static void close_vector(Lines& lines, const std::vector<std::pair<std::string, std::string>>& stores,
                           const std::string& at);
  /// Whether an operand's neighbours along a row lie side by side, aligned like the row.
  bool runs_along_columns(size_t member, int input) const;
  /// Of four neighbours in registers, loaded ahead, the one at hand; `index`: of the first, or "at" for the position.
  std::string loaded_ahead(ValueId value, const std::string& pointer, const std::string& index);
  static int threads_per_row(const KernelGroup& g);
  std::string identity(size_t member) const { return is_max(member) ? "-__builtin_inff()" : "0.0f"; }
  std::string accumulated(size_t member, const std::string& sum, const std::string& term) const;
  std::string position_text() const;
  /// How the threads of a pass share the columns [first, last): thread `thread` of `threads`.
  struct Columns {
    std::string first, last, thread;
    int64_t threads = 1, count = 0;  ///< of columns, at least
  };
  /// One pass over the columns: stores and accumulates what belongs to the level. Four neighbours at a time, by
  /// accesses of 16 bytes, where rows allow.
  void pass(Lines& lines, Counters& row, const std::set<size_t>& wanted, const Columns& columns);
  bool pass_in_fours(const std::vector<size_t>& members, const std::set<size_t>& wanted, const Columns& columns) const;
  std::set<size_t> of_level(int level) const;
  /// Values of the row that are known before the pass of that level.
  void row_values(Lines& lines, const GroupSpot& place, int level, int per_row);
  void store_row(Lines& lines, size_t member, int per_row);
  Kernel rowwise();
  StepKernels split();
  std::string partial_name(size_t member) const { return "partial_" + context_.lowered.names[op(member).result]; }
  std::set<size_t> all_sinks() const;
  /// A multiple of four, so that every chunk begins where accesses of 16 bytes may.
  int64_t chunk_length() const { return ((group_.columns + group_.splits - 1) / group_.splits + 3) / 4 * 4; }
  void chunk_bounds(Lines& lines) const;
  /// One block for a chunk of a row.
  Kernel partial_rows(const std::vector<size_t>& reductions);
  /// 32 neighbouring rows by 8 warps for a chunk of their columns.
  Kernel partial_columns(const std::vector<size_t>& reductions);
  /// Adds up the chunks of every row in their order.
  Kernel combine(const std::vector<size_t>& reductions);
  Kernel finish(const std::string& name, const Lines& lines, int64_t blocks, int threads,
                const std::string& comment) const;
  const KernelContext& context_;
  const KernelGroup& group_;
  std::string name_;
  Arguments arguments_;
  std::string index_;
  std::string comment_;
  std::vector<int> level_;
  bool vector_ = false;
  struct VectorLoad {
    std::string name, pointer, type, index;
    auto operator<=>(const VectorLoad&) const = default;
  };
  std::set<VectorLoad> vector_loads_;
};

}  // namespace hetsynth::codegen::cuda
