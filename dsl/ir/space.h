// Iteration spaces: which loops an operator runs, and which loop indexes which dimension of each operand.
// Sharding rules, local shapes, costs, proof obligations, interpreter and loop kernels are all derived from this.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dsl/ir/type.h"

namespace hetsynth {

enum class FactorKind : uint8_t {
  parallel,  ///< indexes the output; may be split over devices
  sum,       ///< reduced by addition; splitting it leaves partial sums
  max,       ///< reduced by maximum; splitting it leaves partial maxima
  whole,     ///< indexes the output but must not be split
};

struct Factor {
  std::string name;
  int64_t size;
  FactorKind kind;
  bool operator==(const Factor&) const = default;
  bool reduced() const { return kind == FactorKind::sum || kind == FactorKind::max; }
};

/// One summand of a dimension's index: ((f / divide) % modulo) * stride; modulo 0 means none.
struct IndexTerm {
  int factor;
  int64_t stride = 1;
  int64_t divide = 1;
  int64_t modulo = 0;
  bool operator==(const IndexTerm&) const = default;
  bool plain() const { return divide == 1 && modulo == 0; }
};

/// Index of one dimension: the sum of its terms (outermost first) plus an offset. No terms: a constant.
struct DimIndex {
  std::vector<IndexTerm> terms = {};
  int64_t offset = 0;
  int64_t per_turn = 0;  ///< times the number of the turn of the loop around the operator (Program::loops): x[:, t]
  bool operator==(const DimIndex&) const = default;
};

/// How an operand is indexed, one entry per dimension.
struct Access {
  std::vector<DimIndex> dims;
  bool zero_outside = false;  ///< reading outside of the operand gives 0 (concat, padding); otherwise it never happens
  bool operator==(const Access&) const = default;
};

/// out[output(o)] = reduce over the reduced factors of body(in_j[inputs_j(o, k)], o, k).
/// All reduced factors of one operator are of the same kind. An empty sum is 0, an empty maximum is -infinity.
struct Space {
  std::vector<Factor> factors;
  std::vector<Access> inputs;
  Access output;
  /// Random draws of a result's element have its row-major number, and these added: the elements before the result's,
  /// where it is part of a larger one.
  int64_t first_draw = 0, draws_per_turn = 0;

  bool operator==(const Space&) const = default;
  int add_factor(std::string name, int64_t size, FactorKind kind);
  /// Product of all factor sizes: evaluations of the body.
  double iterations() const;
  /// sum, max, or nullopt if nothing is reduced.
  std::optional<FactorKind> reduction() const;
};

/// Dimension index "exactly factor f".
DimIndex index_by(int factor);

/// Where splitting a factor cuts an operand.
struct FactorCut {
  int dim;       ///< dimension of the operand that is cut
  int64_t unit;  ///< elements of that dimension per step of the factor
};
/// The dimension of the operand (with this access and shape) that a contiguous split of `factor` cuts into contiguous
/// shards: the factor is the outermost, plain, unshifted term of exactly one dimension and covers it. nullopt if it
/// does not appear at all or cannot be cut there (then the operand must be whole on every device; see
/// mentions_factor(access, f) to tell the two apart).
std::optional<FactorCut> cut_of(const Space& space, const Access& access, const Shape& shape, int factor);
bool mentions_factor(const Access& access, int factor);

/// A dimension of an operand along which a factor slides windows.
struct WindowCut {
  int dim;                ///< of the operand
  int64_t unit;           ///< elements of it per step of the factor
  int64_t before, after;  ///< steps [lo, hi) of the factor read within [lo * unit - before, hi * unit + after)
};
/// As cut_of, where neighbouring steps of the factor read overlapping parts of the dimension, or parts that lie shifted
/// (convolution, pooling): the factor is a plain term of exactly one dimension, which has `unit` elements per step.
/// nullopt where cut_of has a cut, where the factor does not appear or appears otherwise, and where windows reach over
/// all of the dimension.
std::optional<WindowCut> window_cut_of(const Space& space, const Access& access, const Shape& shape, int factor);

/// Whether an index depends on the turn of the loop around the operator.
bool follows_turn(const Access& access);
bool follows_turn(const Space& space);
/// The space in turn `turn` of the loop: the same without such indices.
Space in_turn(Space space, int64_t turn);
/// The dimension of a result that a loop fills turn by turn (what `stack` makes); -1 if the result is made at once.
int stacked_dim(const Space& space);

/// Half-open ranges of the factors, one per factor: the part of the space a device executes.
struct Range {
  int64_t lo = 0;
  int64_t hi = 0;
  bool operator==(const Range&) const = default;
};

/// What both hold; empty, and not negative, if they have nothing in common.
Range common(const Range& a, const Range& b);
/// A part of [0, extent) with `before` elements in front of it and `after` behind it, as far as there are any (a halo);
/// nothing around a part that is empty.
Range with_halo(const Range& part, int64_t before, int64_t after, int64_t extent);

/// Elements of the part of a tensor that the ranges, one per dimension, name; or of their product over the dimensions
/// from `from` to before `to` alone.
int64_t part_elements(std::span<const Range> ranges);
int64_t part_elements(std::span<const Range> ranges, size_t from, size_t to);

/// "{b:8 t:128 j:384 | k:384 sum} in0[b,t,k] in1[k,j] -> [b,t,j]"; "@" is the turn of the loop around the operator.
/// Stable: hashed into plans.
std::string text(const Space& space);

}  // namespace hetsynth
