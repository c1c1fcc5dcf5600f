// Sharding rules, derived from iteration space and body alone: in which forms an operator can take its operands, and
// which form its result then has.
#pragma once
#include <cstdint>
#include <vector>

#include "dsl/ir/program.h"
#include "synth/classes.h"
#include "synth/kinds.h"

namespace hetsynth::synth {

/// How one mesh axis holds a tensor. (Placement without the table: the table follows from the dimension's class.)
struct Form {
  enum class Kind : uint8_t { replicated, sharded, partial_sum, partial_max };
  Kind kind = Kind::replicated;
  int dim = -1;  ///< sharded: dimension of the tensor
  bool operator==(const Form&) const = default;
  bool partial() const { return kind == Kind::partial_sum || kind == Kind::partial_max; }
};

/// A set of a tensor's forms, by their positions in its list.
using FormMask = uint32_t;

/// Forms a tensor can take: replicated first, then sharded by every dimension that has a class, then partial sums, then
/// partial maxima (only where its operator computes maxima).
std::vector<Form> forms_of(const Program& program, const DimensionClasses& classes, NodeId node);

/// One way to compute an operator on an axis.
struct Option {
  int factor = -1;              ///< split factor; -1: replicated, or partial operands passing through
  std::vector<FormMask> needs;  ///< per operand position: the forms of that tensor it can be given in
  int form = 0;                 ///< of the result
};

/// All tensors' forms and all operators' options. Option 0 of an operator is always "replicated".
struct Rules {
  ByKind<std::vector<Form>> forms;               ///< by node
  ByKind<std::vector<Option>> options;           ///< by node; empty for leaves
  int form_index(NodeId node, Form form) const;  ///< -1 if the tensor cannot take it
};

/// - replicated: operands replicated;
/// - split a factor that has a class: an operand it indexes comes cut accordingly or replicated (a device reads its
/// part of the whole), all others
///   replicated; the result is cut (parallel factor) or partial (sum, max);
/// - pass partial sums through: a set of operands that enters the body additively (`linearity`) comes partial, the
/// others replicated.
/// Derived once for every kind of operation and operand forms.
Rules derive_rules(const Program& program, const DimensionClasses& classes, const std::vector<int>& kinds);

}  // namespace hetsynth::synth
