// Operators under test: a sample traced with its gradient, values for its leaves, and the rules checked on every node.
#pragma once
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "dsl/ir/interpreter.h"
#include "dsl/ir/trace.h"

namespace hetsynth {

/// A sample's operator applied to leaves, and the gradients of sum(output * weight) by each input.
struct TracedSample {
  Program program;
  std::vector<NodeId> inputs;
  NodeId weight = -1;
  NodeId output = -1;
  std::vector<NodeId> gradients;  ///< -1 where the operator gives none
};
TracedSample trace_sample(const OperatorSample& sample);

/// Distinct values spread over [low, high], in random order; whole numbers if `integers`. Distinct and off the middle,
/// so that maxima have no ties and rectifiers no kink within reach of a finite difference.
Array spread_values(const Shape& shape, const OperatorSample::Domain& domain, bool integers, std::mt19937& random);

/// Values for every leaf of a program: indices in [0, classes), states in [0, 2], all others in [-2, 2].
Bindings spread_leaves(const Program& program, std::mt19937& random);
Bindings spread_leaves(const TracedSample& traced, const OperatorSample& sample, std::mt19937& random);

/// The empty string if the node, its space cut at random places along one or two factors, computes the same from the
/// parts of its inputs that cut_of promises to suffice; otherwise what differs.
std::string check_splits(const Node& node, const std::vector<Array>& values, const EvaluationContext& context,
                         std::mt19937& random);

/// The empty string if the body is additive in every set of inputs that linearity() calls linear; otherwise what
/// differs.
std::string check_linearity(const Node& node, const std::vector<Array>& values, const EvaluationContext& context,
                            std::mt19937& random);

/// The empty string if the type says what the space computes; otherwise what differs.
std::string check_type(const Node& node, const std::vector<Array>& values);

}  // namespace hetsynth
