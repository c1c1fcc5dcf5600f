// The stage `fuse for CUDA`: local operators -> launches. One group becomes one kernel: all of its operators walk the
// same domain of rows x columns, and what they hand each other stays in registers.
#pragma once
#include <optional>
#include <vector>

#include "codegen/cuda/plan/attention_call.h"
#include "codegen/passes/attention.h"
#include "codegen/passes/contraction.h"
#include "dsl/cluster/product_epilogue.h"

namespace hetsynth::codegen::cuda {

/// How an operator of a group walks the group's domain.
struct DomainRole {
  enum class Kind : uint8_t {
    full,    ///< one result per position
    row,     ///< one result per row
    reduce,  ///< reads every position, one result per row
  };
  Kind kind = Kind::full;
  /// Per factor: how far one step of it moves the position (full, reduce) or the row (row). 0 for factors of one value
  /// and for a looked-up factor.
  std::vector<int64_t> stride;
  bool lookup = false;  ///< the one-hot factor takes the value of its operand instead of being walked
};

/// Position = row * columns + column, or column * rows + row if `columns_outside`. A group without reductions has
/// columns = 1.
struct KernelGroup {
  int64_t rows = 0, columns = 1;
  bool columns_outside = false;
  bool reduces = false;
  int64_t splits = 1;  ///< above 1: columns are cut into that many chunks, partial results are added by a second kernel
                       ///< in their order
  std::vector<int> ops = {};
  std::vector<DomainRole> roles = {};  ///< as `ops`
  /// Per operator and input: the operator (by its place in `ops`) whose result is read from a register, or -1: read
  /// from memory.
  std::vector<std::vector<int>> sources = {};

  int64_t positions() const { return rows * columns; }
};

/// out[v, columns] = sum over k of (index[k] == v) * rest: every output row is owned by one block, which adds its hits
/// in order of k.
struct ScatterShape {
  int64_t rows = 0, hits = 0, columns = 0;
  std::vector<int64_t> hit_stride, column_stride;  ///< per factor
};

/// What cublasLt does to a product before it stores it, in place of a kernel (codegen/cuda/plan/epilogue.h).
struct Epilogue {
  ProductEpilogue kind = ProductEpilogue::bias;
  ValueId bias = -1;                    ///< -1: none is added
  int64_t bias_offset = 0;              ///< elements
  ValueId sums = -1;                    ///< of the columns of what is stored: the bias's gradient; -1: not wanted
  ValueId beside = -1;                  ///< what is before the activation: stored, or read for the slope; -1: neither
  ValueId result = -1;                  ///< what is stored
  std::vector<int> ops = {};            ///< those of the kernel it stands for, in order
  std::vector<ValueId> passed_on = {};  ///< operands that these take from the product and from each other
};

struct LaunchStep {
  enum class Kind : uint8_t { kernel, scatter, product, collective, attention };
  Kind kind = Kind::kernel;
  KernelGroup group = {};             ///< kernel
  int op = -1;                        ///< scatter, product
  std::vector<int> collectives = {};  ///< collective: one, or those of a bucket
  std::optional<FusedAttention> attention = {};
  std::vector<int> attention_ops = {};
  std::optional<AttentionCall> call = {};  ///< attention: cuDNN carries it out
  ScatterShape scatter = {};
  std::optional<Contraction> contraction = {};  ///< product
  std::optional<Epilogue> epilogue = {};        ///< product
  /// The operators it carries out, in order.
  std::vector<int> ops() const {
    if (kind == Kind::kernel) return group.ops;
    if (kind == Kind::collective) return collectives;
    if (kind == Kind::attention) return attention_ops;
    std::vector<int> out = {op};
    if (epilogue) out.insert(out.end(), epilogue->ops.begin(), epilogue->ops.end());
    return out;
  }
};

/// The steps of a rank in order of execution. Operators that compute nothing here (windows, empty shares) are in none
/// of them. Collectives keep the order of the program. Sums over empty ranges in `program` are replaced by their
/// constants. Each of `attention` becomes one step if the operators around it can be ordered so. `buckets`: by
/// operator, the bucket a collective belongs to, -1: none; those of a bucket stand one behind the other and become one
/// step.
std::vector<LaunchStep> fuse(LocalProgram& program, const Layouts& layouts,
                             const std::vector<FusedAttention>& attention = {}, const std::vector<int>& buckets = {});

}  // namespace hetsynth::codegen::cuda
