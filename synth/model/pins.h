// What a user fixes of a plan, and what that means for the search.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "dsl/cluster/cluster.h"
#include "dsl/spmd/spmd.h"
#include "synth/space/rules.h"

namespace hetsynth {

/// Empty: nothing is fixed.
struct PlanPins {
  struct PinnedPlacement {
    std::string node;       ///< its name: a parameter, a state, or an operation's result
    std::string placement;  ///< by mesh axis, separated by commas: "replicated", "sharded(0)", "partial(sum)"; "any"
  };
  std::vector<PinnedPlacement> placements;
  std::vector<Opcode> forbidden;  ///< instructions that the program must do without
  bool recompute = true;          ///< values may be made twice where memory is short
  std::vector<double> ratio;      ///< share of the work by device, in rank order; need not add up to 1
  std::vector<int> mesh;          ///< sizes of the axes
  bool any() const { return !forbidden.empty() || need_all_devices(); }
  /// No device may be left out then: placements, ratio and mesh are said of all of them.
  bool need_all_devices() const { return !placements.empty() || !ratio.empty() || !mesh.empty(); }
};

/// "name=placement". Throws UserError.
PlanPins::PinnedPlacement parse_pinned_placement(const std::string& text);
/// What a program can be made to do without: the instructions of communication, and "recompute".
std::vector<std::string> forbidden_words();
/// One of these. Throws UserError for what is no instruction of communication.
void add_forbidden(const std::string& text, PlanPins* pins);
/// "2x4". Throws UserError.
std::vector<int> parse_mesh(const std::string& text);
/// Reads a TOML file with the keys placement (a table), forbid, ratio and mesh. Throws UserError with file and line.
PlanPins load_pins(const std::string& path);
/// Ratio and mesh that `more` has replace those of `pins`.
void add_pins(const PlanPins& more, PlanPins* pins);

}  // namespace hetsynth

namespace hetsynth::synth {

struct Problem;

/// Values that a node is held to; a node without an entry is free.
using Pins = std::map<NodeId, std::vector<int>>;

/// The placements as values of the nodes' variables. Throws UserError for a name that no node has, and for a placement
/// that the node cannot take.
Pins pinned_values(const Problem& problem, const PlanPins& pins);

/// Throws UserError if ratio or mesh do not fit the cluster.
void check_pins(const PlanPins& pins, const Cluster& cluster);

/// Each pin in words: "wte=sharded(0)", "no all_to_all".
std::vector<std::string> pin_texts(const PlanPins& pins);
/// All but one of them, as numbered by `pin_texts`.
PlanPins without_pin(const PlanPins& pins, size_t index);

}  // namespace hetsynth::synth
