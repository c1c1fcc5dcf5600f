// The planning problem of one reference program on one cluster, and what a solution of it is.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "synth/model/conversion.h"
#include "synth/model/pins.h"
#include "synth/support/interner.h"
#include "synth/support/program_pool.h"

namespace hetsynth::synth {

/// Everything derived once from program and cluster. Not copyable: the parts refer to each other.
struct Problem {
  /// On one axis over all devices.
  Problem(const Program& program, const Cluster& cluster, const std::string& axis = "dev");
  /// With the analysis of the same program for as many axes; a mesh of one device has none.
  Problem(std::shared_ptr<const Analysis> analysis, const Cluster& cluster, const Mesh& mesh);
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  std::shared_ptr<const Analysis> analysis;
  const Program& program;
  const Cluster cluster;
  const Mesh mesh;
  const DimensionClasses& classes;
  const Rules& rules;
  CostModel cost;
  const std::vector<std::vector<NodeId>>& consumers;
  const std::vector<std::vector<NodeId>>& update_targets;
  const std::vector<char>& is_output;
  Pins pins;                  ///< all searches keep to them
  std::vector<double> ratio;  ///< by device: the only shares to plan at; empty: any
  bool constrained = false;   ///< by these or by forbidden instructions
  bool recompute = true;      ///< where memory is short, values may be made twice
  bool fills_memory = false;  ///< see memory_budget
  /// Of what is planned for it.
  const std::shared_ptr<ProgramPool> programs = std::make_shared<ProgramPool>();

  /// Takes over what a user fixed. Throws UserError if the problem knows no such node, placement or mesh.
  void constrain(const PlanPins& given);
};

/// The forms one tensor is materialised in. Apart: those that the backward and update phases use are made again from
/// the first form instead of kept since the forward phase (so that a gathered parameter need not stay).
struct FormSets {
  bool chosen = false;  ///< false: the cheapest sets that hold what the consumers need
  bool apart = false;
  FormMask early = 0;  ///< for consumers of the forward phase, the loss and named outputs; of all, unless apart
  FormMask late = 0;
  bool operator==(const FormSets&) const = default;
};

/// A point of the search space: for an operation its option, for a leaf the form it is kept in; and, where memory
/// decided, the forms of tensors.
struct Choices {
  std::vector<int> of;         ///< by node
  std::vector<FormSets> sets;  ///< by node; empty: none is chosen
  int operator[](NodeId node) const { return of[node]; }
  bool empty() const { return of.empty(); }
  bool operator==(const Choices&) const = default;
};

/// One axis over all devices of the cluster.
Mesh flat_mesh(const Cluster& cluster, const std::string& axis = "dev");

/// The forms in which a named output can be read: neither partial nor in parts that overlap.
FormMask readable(const std::vector<Form>& forms);

/// What one consumer needs of a tensor.
struct TensorNeed {
  NodeId consumer;  ///< an operation, the leaf that is updated (or carry), or -1 for the loss and named outputs
  int position;     ///< operand position of an operation
  FormMask forms;
};
/// All needs of a tensor's consumers under the choices, in program order.
std::vector<TensorNeed> needs_of(const Problem& problem, const Choices& choices, NodeId node);
/// The form that a leaf is kept in under the choices, or a carry from turn to turn.
const Form& kept_form(const Problem& problem, const Choices& choices, NodeId node);

/// How one tensor is materialised under the choices: its first form, all forms, and the cheapest conversions between
/// them.
struct Materialisation {
  int source = 0;
  FormSets sets;
  std::vector<std::pair<int, int>> steps, late_steps;  ///< late: only if apart
  Picoseconds cost = 0;
};
Materialisation materialise(const Problem& problem, const Conversions& conversions, const Choices& choices,
                            NodeId node);
/// The same, equal situations being worked out once.
class Materialiser {
 public:
  Materialiser(const Problem& problem, const Conversions& conversions) : problem_(problem), conversions_(conversions) {}
  const Materialisation& of(const Choices& choices, NodeId node);
  /// Of every node. They live as long as this.
  std::vector<const Materialisation*> all(const Choices& choices);

 private:
  bool alike(const Choices& choices, NodeId a, NodeId b) const;

  const Problem& problem_;
  const Conversions& conversions_;
  std::unordered_map<std::vector<int64_t>, Materialisation, SequenceHash> seen_;
  std::vector<TensorNeed> needs_;  ///< of the last, as its masks and key: their memory is used again
  std::vector<FormMask> masks_;
  std::vector<int64_t> key_;
};

/// Seconds of the step under the choices, in picoseconds: operators and conversions; `forbidden` if some need cannot be
/// met.
Picoseconds total_cost(const Problem& problem, const Conversions& conversions, const Shares& shares,
                       const Choices& choices);
/// The same at other costs of operations, which must be equal for nodes of one kind.
Picoseconds total_cost(const Problem& problem, const Conversions& conversions, const Choices& choices,
                       const std::function<Picoseconds(NodeId, const Option&)>& operation);

/// What of a cut dimension devices hold besides their parts, as a part of all of it: an inner device's, which those at
/// the ends do not reach.
double overlap(const Node& node, const Placement& placement);

}  // namespace hetsynth::synth
