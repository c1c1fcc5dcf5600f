// Small reference programs built by hand, and an executor of SPMD programs on all ranks in float64: what the tests of
// synthesis stand on.
#pragma once
#include <string>
#include <vector>

#include "dsl/cluster/cluster.h"
#include "dsl/ir/interpreter.h"
#include "dsl/ir/program.h"
#include "dsl/spmd/plan.h"
#include "dsl/spmd/spmd.h"

namespace hetsynth::testing_support {

/// Appends nodes; letters of an operator's subscripts are its factors, as in "bk,kn->bn".
class ProgramBuilder {
 public:
  NodeId input(const std::string& name, Shape shape, DType dtype = DType::f32);
  NodeId parameter(const std::string& name, Shape shape);
  NodeId state(const std::string& name, Shape shape);
  /// Letters missing in the result are reduced, by `reduce`. Without a body: the product of the operands.
  NodeId op(const std::string& name, const std::string& subscripts, std::vector<NodeId> inputs,
            FactorKind reduce = FactorKind::sum);
  NodeId op(const std::string& name, const std::string& subscripts, std::vector<NodeId> inputs, Expr body,
            FactorKind reduce = FactorKind::sum, const std::string& sizes = "");
  /// [y, b]: sums over three neighbouring rows of a [stride y, b], `before` of them before row stride y; rows outside
  /// of a are zero.
  NodeId windows(const std::string& name, NodeId a, int64_t stride, int64_t before);
  /// [k, b]: sums over y of row y of c times row y + k - 1 of a; both [y, b].
  NodeId window_products(const std::string& name, NodeId a, NodeId c);
  void phase(Phase phase) { phase_ = phase; }
  /// Extent of a letter that no operand has (one-hot loops).
  void size(char letter, int64_t extent) { sizes_[letter] = extent; }
  Program program;

 private:
  NodeId leaf(NodeKind kind, const std::string& name, Shape shape, DType dtype);
  NodeId append(Node node, const std::string& name, const std::string& attributes, std::vector<NodeId> inputs,
                Expr body, Shape shape);
  Phase phase_ = Phase::forward;
  std::map<char, int64_t> sizes_;
};

/// Layers of relu(h w) on a batch, squared error, gradients by hand, and gradient descent with momentum on every
/// weight.
Program mlp(int64_t batch, std::vector<int64_t> widths);

/// Two samples x of a product `hidden` with weights w, and a table of 8,192 rows that is halved.
Program samples_and_rows();

/// Equal devices but for their speeds (floating-point operations per second) and memories; one host.
Cluster cluster_of_speeds(const std::vector<double>& speeds, double link_bytes_per_second = 1e9,
                          double latency_seconds = 1e-6, const std::vector<int64_t>& memory_bytes = {});

/// Memory of a device of which a plan may fill so many bytes.
int64_t memory_to_fill(int64_t bytes);

/// Bytes of the device that is predicted to hold most.
int64_t fullest(const Plan& plan);

/// Runs all ranks of an SPMD program for a step and compares loss and new contents of parameters and states with the
/// reference program's. Returns the first difference in words, or "" if there is none. Every device's copy is compared.
std::string compare_with_reference(const Program& reference, const SpmdProgram& spmd, uint64_t seed);

}  // namespace hetsynth::testing_support
