// What is being verified, with the plan's tables reduced to those that differ, and what a value is found to hold.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dsl/spmd/spmd.h"

namespace hetsynth {

/// Whether an index of a plan names one of so many things.
inline bool below(int64_t index, size_t count) { return index >= 0 && uint64_t(index) < count; }

struct Subject {
  const Program& reference;
  const SpmdProgram& program;
  /// By table: the first table that cuts alike, whatever its unit: [0,3,8] of 8 and [0,6,16] of 16.
  std::vector<int> table_of;
  std::vector<int64_t> parts;  ///< by table: its extent in the largest unit that its boundaries are multiples of
  std::vector<NodeId> first;   ///< by node: the first that is the same tensor (same_tensor.h)

  const Node& node(NodeId id) const { return reference[id]; }
  const Mesh::Axis& axis(int a) const { return program.mesh.axes[a]; }
  int axis_count() const { return int(program.mesh.axes.size()); }
  bool same(NodeId a, NodeId b) const { return a == b || first[a] == first[b]; }
  /// An axis of one device holds everything: every placement on it is replicated.
  bool trivial(int a) const { return axis(a).size == 1; }
};

/// Expects a plan without flaws (form.h).
Subject make_subject(const Program& reference, const SpmdProgram& program);

/// What a value is found to stand for: a logical tensor T and, per mesh axis, how it is held (docs/verification.md,
/// "What a device holds"). Tables are the subject's. A device at coordinates c holds F(c, i) for the elements i of its
/// part, and F depends on the coordinates of the partial axes and of `varying` alone: reduced over the partial axes it
/// is T, whatever the others are. Where nothing is partial, F is T and nothing varies.
struct Held {
  NodeId node = -1;  ///< -1: not defined yet
  Placements placements;
  std::set<int> varying{};  ///< axes, none of them partial, along which the summands of a partial value may differ
  bool defined() const { return node >= 0; }
  bool operator==(const Held&) const = default;

  /// The reduction that is left open; nothing if the value is whole.
  std::optional<ReduceOp> open_reduction() const;
};

/// Takes out of `varying` what cannot vary: partial axes, axes of stages (one coordinate holds the value), axes of one
/// device, and everything where nothing is partial.
void settle(const Subject& subject, Held& held);

/// Why the parts of a value whose summands vary do not fit together: who holds an element along an axis of `varying`
/// must be the same device for all of its summands, so its table may not follow the coordinates of a partial axis, and
/// its parts may not overlap. Empty if they do.
std::string owners_differ(const Subject& subject, const Held& held);

/// Placements with the subject's tables, and replicated on axes of one device.
Placements normalised(const Subject& subject, Placements placements);

/// Axes whose coordinates the plan tells apart, as pipeline stages.
std::set<int> axes_of_stages(const SpmdProgram& program);

/// Why tables that cut one thing over several axes do not divide it into parts: over each of two axes differently along
/// the other. `tables`: by axis, -1 where nothing is cut. Empty if they do.
std::string circular(const SpmdProgram& program, const std::vector<int>& tables);

/// Why a table of the plan cannot cut a dimension of a tensor of this shape; empty if it can.
std::string uncuttable(const Subject& subject, const Shape& shape, int dim, int table);

/// Why a tensor of this shape cannot be held so; empty if it can: a dimension cut over one axis, or over a second one
/// that divides the parts further; tables of their axes that together cover it; one kind of reduction; stages of their
/// axes.
std::string unfit(const Subject& subject, const Shape& shape, const Placements& placements);

/// "replicated over axis dp", "cut in dimension 1 by table rows over axis dp", "partial(sum) over axis dp", "held by
/// stage 2 of axis pp alone" for one axis.
std::string describe(const Subject& subject, const Placement& placement, int axis);

}  // namespace hetsynth
