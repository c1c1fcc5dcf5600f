// The reference program: append-only SSA graph of the whole training step, for one device.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dsl/base/error.h"
#include "dsl/ir/data_source.h"
#include "dsl/ir/operator.h"

namespace hetsynth {

using NodeId = int;

enum class NodeKind : uint8_t {
  input,      ///< data of the batch
  parameter,  ///< trained, carried from step to step
  state,      ///< carried from step to step: of an optimizer, or the model's own; data that stays is one, too
  operation,
};

enum class Phase : uint8_t { forward, backward, update };

std::string_view name(NodeKind kind);
std::string_view name(Phase phase);

/// Starting values of a parameter or state, drawn by Philox from (run seed, node name, global element index).
struct Initializer {
  enum class Kind : uint8_t { constant, normal, uniform, values };
  Kind kind = Kind::constant;
  double value = 0;        ///< the constant; standard deviation of normal; half-width of uniform around 0
  std::string drawn_as{};  ///< the leaf whose draws these are, so that both start alike; empty: the leaf's own
  std::shared_ptr<const std::vector<double>> values{};  ///< of Kind::values: one for each element, row-major
};

/// Which of a step's samples an input holds, if the step has several micro-batches.
struct MicroBatch {
  std::string of = {};           ///< name of the first micro-batch's input, which this one continues; empty: itself
  int64_t first_sample = 0;      ///< of the step's samples
  int64_t samples_per_step = 0;  ///< of all micro-batches together; 0: those of this input alone
  /// Above 1: dimension 0 numbers the turns in which the step is taken (dsl/transform/turns.h), dimension 1 the samples
  /// of one.
  int64_t turns = 1;
};

struct Node {
  NodeId id = -1;
  NodeKind kind = NodeKind::operation;
  TensorType type;
  std::string name;  ///< the user's variable, or derived: "h1.matmul", "d_w1"; unique in the program
  SourceLocation where;
  Phase phase = Phase::forward;
  int loop = -1;          ///< in Program::loops; -1: runs once
  int recomputation = 0;  ///< > 0: computed again, for the backward pass; never merged with the first computation
  // operation
  std::shared_ptr<const Operator> op;
  std::vector<NodeId> inputs;
  Space space;
  Expr body = 0.0;
  // leaf
  Initializer initializer;  ///< parameter, state
  DataSource data;          ///< input
  MicroBatch micro_batch;   ///< input

  bool leaf() const { return kind != NodeKind::operation; }
  /// "einsum", or the kind of leaf.
  std::string_view tag() const { return leaf() ? name_of_kind() : op->tag(); }

 private:
  std::string_view name_of_kind() const;
};

/// Whether a leaf holds data that the model's file gave it (`constant`): never updated, and in no checkpoint, since the
/// model brings it along.
bool is_constant_data(const Node& node);

/// The run's number of sample `sample` of an input in a step.
int64_t global_sample(const Node& input, int64_t step, int64_t sample);
/// Samples that the input holds.
int64_t sample_count(const Node& input);
/// The input as one batch: a step's turns one behind the other, as they lie in memory.
Node as_one_batch(const Node& input);
/// Name that tells an input's data apart: the same for all micro-batches.
const std::string& data_name(const Node& input);

/// At the end of the step `target` (parameter or state) takes the value of `value`.
struct Update {
  NodeId target;
  NodeId value;
};

/// A value the user marked to look at after the forward pass (logits for sampling).
struct NamedOutput {
  std::string name;
  NodeId node;
  bool metric = false;  ///< a scalar that is told beside the loss, a mean over the step's micro-batches as the loss is
};

/// A hyper-parameter the model asked for, with the value it got.
struct OptionValue {
  std::string name;
  std::string value;
  std::string help;
};

/// Nodes that run once per turn, t = 0, 1, ... (`scan` over time steps). They read tensors of outside, whole or at the
/// position that the turn gives (DimIndex::per_turn), and what the same turn made before. Outside of the loop two kinds
/// of them can be read: tensors that it fills turn by turn (`stack`), and by `last` what a node made in the last turn.
struct TurnLoop {
  /// In turn 0 `carry` is its input, a tensor of outside; then it is what `next` was in the turn before. Both are nodes
  /// of the loop, of one type; `next` is no carry, and no two carries share it.
  struct Carry {
    NodeId carry, next;
  };
  int64_t turns = 1;
  std::vector<Carry> carries;
  /// Its turns take parts of the batch (dsl/transform/turns.h), not time steps: what stands in it is as without the
  /// loop.
  bool of_samples = false;
};

struct Program {
  std::string model_file;
  std::vector<Node> nodes;  ///< topological: inputs come before uses
  std::vector<TurnLoop> loops;
  NodeId loss = -1;  ///< scalar f32
  std::vector<Update> updates;
  std::vector<NamedOutput> outputs;
  std::vector<OptionValue> options;

  const Node& operator[](NodeId id) const { return nodes[id]; }
  /// Consumers of every node, in order, each listed once per consuming node.
  std::vector<std::vector<NodeId>> consumers() const;
  /// How often a node runs in a step.
  int64_t turns(NodeId id) const { return nodes[id].loop < 0 ? 1 : loops[nodes[id].loop].turns; }
  /// What a carry takes over at the end of a turn; -1 for all other nodes.
  NodeId next_of(NodeId id) const;
  /// Total elements of all parameters.
  int64_t parameter_count() const;
};

/// One line per node: "%12 h1 = einsum(%3 x, %4 w1) \"bk,kn->bn\" : f32[32,128]  # model.cpp:7". Stable.
std::string text(const Program& program);

/// 64-bit content hash (hexadecimal) of everything that determines the computation; names of files and lines do not
/// count.
std::string hash_text(const Program& program);

/// The program without what neither loss, updates nor outputs need, with equal computations merged, and with the nodes
/// of each loop one behind the other.
Program simplify(const Program& program);

/// The part of the program that computes one named output, without loss and updates.
Program restrict_to_output(const Program& program, const std::string& output);

}  // namespace hetsynth
