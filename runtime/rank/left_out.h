// Matrix products without some of their columns: what a rank that is slower than planned leaves out of its step
// (ZERO-resizing: Z. Wang et al., arXiv 2401.11469). Terms of sums over columns that are left out count as 0, and so do
// gradients by them: the step is that of a model in which this rank does not see these columns.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "codegen/interface/device_program.h"
#include "dsl/ir/type.h"

namespace hetsynth {

/// A call of hetsynth_matmul (codegen/interface/abi.h).
struct MatrixProduct {
  int64_t batch, m, n, k;
  const void* a;
  int64_t a_batch, a_row, a_column;
  const void* w;
  int64_t w_batch, w_row, w_column;
  float* c;
  int64_t c_batch, c_row, c_column;
  bool accumulate;
  DType operands;
};

/// The same for the transposed result, by the transposed operands.
MatrixProduct transposed(const MatrixProduct& product);

/// Products of a rank that have columns, since it was made.
struct ColumnWork {
  double flops = 0;  ///< with those that were left out
  double left_out_flops = 0;
  double product_seconds = 0;
  double packing_seconds = 0;  ///< in copying what was kept, before and after the products of it
};

/// The columns that a rank leaves out. The rank's thread calls it, or others while that thread rests.
class LeftOutColumns {
 public:
  using Multiply = std::function<void(const MatrixProduct&)>;

  /// `program` has marks, and outlives this.
  explicit LeftOutColumns(const DeviceProgram& program);

  /// From the next step on this part of the columns of each product is left out, as soon as it is known which: 10 steps
  /// after this was made. 0: none, and steps are then what they are without this class, to the bit.
  void leave_out(double part) { part_ = part; }
  /// Whether this step keeps a column of a set that the rank has.
  bool keeps(int set, int64_t column) const;

  /// Has the calls of this thread come here until the end of the step.
  void begin_step();
  void end_step();
  /// Null: the thread's calls are as they are.
  static LeftOutColumns* of_this_thread();

  /// The work of this mark begins.
  void begin(int mark) { product_ = size_t(mark) < by_mark_.size() ? by_mark_[size_t(mark)] : -1; }
  /// Carries the product out, by `multiply` of what is kept.
  void multiply(const MatrixProduct& product, const Multiply& multiply);

  const ColumnWork& work() const { return work_; }

 private:
  /// Columns of a set, in groups that are kept or left out together.
  struct Set {
    int64_t first = 0, group = 1;  ///< columns: the first that this rank has, and how many are in a group
    std::vector<bool> left_out;    ///< by group
    std::vector<double> change;    ///< of the weights' rows, between two looks at them
    std::vector<size_t> order;     ///< of groups, those first that are left out first
  };
  /// Weights of a call, as they were when they were looked at.
  struct Looked {
    int64_t phase = -1;
    std::vector<float> values;
  };

  /// Whether this step, or some other one, looks at weights.
  bool is_looking() const { return part_ == 0 || !known_; }
  void order_by_change();
  void choose();
  void look_at_weights(const ColumnProduct& place, const MatrixProduct& product);
  /// Indices of the dimension that are kept, in order.
  const std::vector<int64_t>& kept(int product, int64_t extent);
  /// Of an index of the product's dimension.
  size_t group_of(const ColumnProduct& place, int64_t index) const;

  const std::vector<ColumnProduct>& products_;
  std::vector<int> by_mark_;  ///< number of the product; -1: none
  std::vector<Set> sets_;
  std::vector<std::vector<int64_t>> kept_;  ///< by product; empty: not yet looked up in this choice
  std::map<std::pair<int, const void*>, Looked> looked_;
  double part_ = 0, chosen_part_ = 0;
  int64_t phase_ = 0;   ///< steps since the first of two looks
  bool looks_ = false;  ///< at weights, in this step
  bool known_ = false;  ///< the orders of sets
  int product_ = -1;    ///< whose work it is
  ColumnWork work_;
};

}  // namespace hetsynth
