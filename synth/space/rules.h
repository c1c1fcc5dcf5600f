// Sharding rules, derived from iteration space and body alone: in which forms an operator can take its operands, and
// which form its result then has.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "dsl/ir/program.h"
#include "synth/space/dimension_classes.h"
#include "synth/space/node_equivalence.h"
#include "synth/space/shares.h"

namespace hetsynth::synth {

/// Mesh axes that the search can handle.
constexpr int max_axes = 3;
/// Axes that the planner tries where nothing else is said.
constexpr int usual_axes = 2;
/// On meshes of so many axes or fewer, the inner one may cut what windows slide over.
constexpr int most_axes_with_halos = 2;
/// What two axes may cut together where there are two.
enum class NestedCuts : uint8_t { none, of_samples };

/// How one mesh axis holds a tensor. (Placement without the table: the table follows from the dimension's class.)
struct AxisForm {
  enum class Kind : uint8_t { replicated, sharded, partial_sum, partial_max };
  Kind kind = Kind::replicated;
  int dim = -1;  ///< sharded: dimension of the tensor
  /// sharded: elements of the dimension that a device holds besides its part (Placement), and all that it has.
  int64_t before = 0, after = 0, extent = 1;
  bool operator==(const AxisForm&) const = default;
  bool sharded() const { return kind == Kind::sharded; }
  bool overlaps() const { return before > 0 || after > 0; }
  /// What overlaps, as a part of the dimension.
  double overlap() const { return double(before + after) / double(extent); }
  bool partial() const { return kind == Kind::partial_sum || kind == Kind::partial_max; }
};

/// How the mesh holds a tensor; axes that the mesh does not have hold everything.
struct Form {
  std::array<AxisForm, max_axes> on;
  bool operator==(const Form&) const = default;
  bool partial() const;   ///< on some axis
  bool sharded() const;   ///< on some axis
  bool whole() const;     ///< replicated on all axes
  bool overlaps() const;  ///< parts do on some axis: a form to read the tensor in, in which it is never made or kept
  bool nested() const;    ///< a dimension is cut along two axes: the inner one divides the parts of axis 0
  /// What an axis cuts of the tensor, `classes` being those of its dimensions.
  CutClass cut(int axis, const std::vector<int>& classes) const;
};

/// A set of a tensor's forms, by their positions in its list.
using FormMask = uint64_t;
constexpr int max_forms = 64;

/// Forms a tensor can take on a mesh of so many axes: every combination of replicated, sharded by a dimension that has
/// a class, partial sums, and partial maxima (only where its operator computes maxima). Two axes
/// can cut the same dimension, if it is a tensor's first and of `nested_class`, the inner one the parts of the outer.
/// Sums and maxima do not mix. Whole comes first, partial forms (on any axis) last. Of three axes the first is one of
/// depth: it cuts nothing but a tensor's first dimension with a class (samples of activations, rows of parameters) and
/// holds no maxima. `halos`: forms in which parts along the inner axis overlap; left out where a tensor would have too
/// many forms.
std::vector<Form> forms_of(const Program& program, const DimensionClasses& classes, NodeId node, int axes,
                           int nested_class, const std::vector<AxisForm>& halos = {});

/// One way to compute an operator.
struct Option {
  /// By axis: the split factor; -1: replicated, or partial operands passing through.
  std::array<int, max_axes> factor{-1, -1, -1};
  std::vector<FormMask> needs;  ///< per operand position: the forms of that tensor it can be given in
  int form = 0;                 ///< of the result
  bool splits() const;          ///< some factor
};

/// All tensors' forms and all operators' options. Option 0 of an operator is always "replicated".
struct Rules {
  int axes = 1;
  NestedCuts nested = NestedCuts::none;                 ///< what was asked for
  int nested_class = -1;                                ///< that two axes may cut together; -1: none
  ByKind<std::vector<Form>> forms;                      ///< by node
  ByKind<std::vector<Option>> options;                  ///< by node; empty for leaves
  int form_index(NodeId node, const Form& form) const;  ///< -1 if the tensor cannot take it
  /// The form alone; nothing if the tensor cannot take it.
  FormMask mask_of(NodeId node, const Form& form) const {
    const int index = form_index(node, form);
    return index < 0 ? 0 : FormMask(1) << index;
  }
  /// Those that a leaf may be kept in, by value of its variable; an input counts as whole.
  std::vector<int> leaf_forms(const Node& leaf) const;
  /// The option that an operation's choice stands for.
  const Option& option(NodeId node, int choice) const { return options[node][size_t(choice)]; }
};

/// On every axis:
/// - replicated: operands replicated;
/// - split a factor that has a class: an operand it indexes comes cut accordingly or replicated (a device reads its
///   part of the whole), all others replicated; the result is cut (parallel factor) or partial (sum, max). Along
///   the inner axis an operand that windows slide over along the factor comes cut with a halo, or replicated;
/// - pass partial sums through: a set of operands that enters the body additively (`linearity`) comes partial, the
///   others replicated.
/// Several axes take every combination of these whose result has a form. Two axes can split the same factor if it
/// is of the batch and indexes nothing but first dimensions. The axis of depth splits only factors that index nothing
/// but first dimensions of what it cuts. Derived once for every kind of operation and operand forms.
Rules derive_rules(const Program& program, const DimensionClasses& classes, const std::vector<int>& kinds, int axes,
                   NestedCuts nested);

}  // namespace hetsynth::synth
