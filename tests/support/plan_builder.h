// Reference programs and plans for the tests of verification, written without the DSL's operators.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "dsl/spmd/spmd.h"

namespace hetsynth::test {

/// Builds a reference program node by node. Nodes are found by name; node i stands in line i + 1 of "model.cpp".
class ProgramBuilder {
 public:
  NodeId leaf(const std::string& name, NodeKind kind, Shape shape, DType dtype = DType::f32);
  /// out = sum of a * b over the letters that `spec` ("bk,kn->bn") leaves out.
  NodeId einsum(const std::string& name, const std::string& spec, const std::string& a, const std::string& b);
  /// out[l] = reduce of body over the letters that the output lacks; inputs by letters: ("bn,b->bn", {"o", "s"}, body,
  /// ...). Letters that no input has take their extent from `extents`.
  NodeId general(const std::string& name, const std::string& spec, const std::vector<std::string>& inputs, Expr body,
                 FactorKind reduction = FactorKind::sum, const std::map<char, int64_t>& extents = {});
  /// A node with a space of its own.
  NodeId custom(const std::string& name, const std::vector<std::string>& inputs, Space space, Expr body, Shape shape);
  void update(const std::string& target, const std::string& value);
  NodeId id(const std::string& name) const { return ids_.at(name); }

  Program program;

 private:
  NodeId add(Node node);
  std::map<std::string, NodeId> ids_;
};

/// Two layers with squared error, momentum on w1 and plain steps on w2, by data x [B,K], y [B,N].
///   h = x w1; a = relu(h); o = a w2; d = o - y; loss = sum(d * d) / B; d_o, d_w2, d_a, d_h, d_w1; m1_new, w1_new,
///   w2_new
Program two_layers(int64_t B = 8, int64_t K = 4, int64_t H = 6, int64_t N = 5);

/// Softmax over n with its statistics, a loss on it and the update of w by sums of it: o = x w, mx, e, s, p, loss, d_w,
/// w_new. The softmax itself is the same whatever is subtracted as mx; only a loss that reads mx too depends on it.
Program softmax_layer(bool loss_reads_maximum = true, int64_t B = 8, int64_t K = 3, int64_t N = 6);

/// Builds a plan instruction by instruction. Claims are those of hetsynth::infer_placements where it has an answer.
class PlanBuilder {
 public:
  PlanBuilder(const Program& reference, std::vector<Mesh::Axis> axes);
  int table(const std::string& name, int axis, int64_t extent, std::vector<int64_t> bounds);
  /// One that cuts differently at each coordinate of the axis `by`.
  int table(const std::string& name, int axis, int64_t extent, int by, std::vector<std::vector<int64_t>> rows);
  ValueId leaf(const std::string& node, Placements placements = {});
  ValueId leaf(NodeId node, Placements placements);
  /// `splits`: factor name and table per axis; "" for none.
  ValueId compute(const std::string& node, std::vector<ValueId> operands,
                  std::vector<std::pair<std::string, int>> splits = {});
  ValueId compute(NodeId node, std::vector<ValueId> operands, std::vector<Split> splits);
  ValueId slice(ValueId from, int axis, int dim, int table);
  ValueId to_partial(ValueId from, int axis, int root = 0);
  ValueId all_gather(ValueId from, int axis);
  ValueId all_reduce(ValueId from, int axis, ReduceOp reduce = ReduceOp::sum);
  ValueId reduce_scatter(ValueId from, int axis, int dim, int table, ReduceOp reduce = ReduceOp::sum);
  ValueId all_to_all(ValueId from, int axis, int to_dim, int to_table);
  ValueId broadcast(ValueId from, int axis, int root = 0);
  /// Of the dimension that the operand is cut in.
  ValueId halo_exchange(ValueId from, int axis, int64_t before, int64_t after);
  /// From the stage that the operand lies on by its placement.
  ValueId send(ValueId from, int axis, int to);
  /// The same tensor held as wanted: what is cut or partial elsewhere becomes whole, then what is to be cut is cut.
  /// `scatters` says for which axes a partial value goes straight to its part.
  ValueId moved(ValueId from, const Placements& wanted, const std::function<bool(int)>& scatters = {});
  void final(const std::string& target, ValueId value);

  NodeId node(const std::string& name) const;
  const Program& reference;
  SpmdProgram plan;

 private:
  ValueId value(NodeId node, Placements placements);
  ValueId movement(Opcode opcode, ValueId from, int axis, Placement to, Instruction instruction);
};

/// Data parallelism of two_layers over axis "dp": the batch cut by table "batch", gradients all-reduced.
SpmdProgram data_parallel(const Program& two_layers, std::vector<int64_t> bounds = {0, 3, 8});
/// Tensor parallelism of two_layers over axis "tp": w1 cut by columns, w2 by rows, o all-reduced.
SpmdProgram tensor_parallel(const Program& two_layers, std::vector<int64_t> bounds = {0, 2, 6});

/// The instruction that makes a value of this node with this opcode; -1 if there is none.
int find(const SpmdProgram& plan, const Program& reference, Opcode opcode, const std::string& node);
/// Takes the instruction out; its result's readers read its operand.
void drop(SpmdProgram& plan, int instruction);

}  // namespace hetsynth::test
