// What each instruction leaves behind, inferred from what its operands are found to hold. Own rules: nothing is taken
// from synthesis or from the placements that the plan claims.
//
// A rule is a theorem about families of local tensors (docs/verification.md, "What a device holds"): its premises imply
// that the result holds what the rule concludes. The premises have names, so that the tests can prove every rule with
// all of its premises and refute it with any one of them left out (tests/theorems).
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "verify/rules/normalised_plan.h"
#include "verify/solver/obligation.h"

namespace hetsynth {

enum class Premise : uint8_t {
  // Movements.
  whole_on_axis,          ///< the operand is replicated over the instruction's axis
  whole_or_on_root,       ///< it is replicated over the axis, or lies on the stage that is the root
  on_root,                ///< it lies on the stage that is the root
  source_cut_so,          ///< it is cut over the axis as the instruction says
  source_can_be_cut_so,   ///< over an axis of one device: it could be cut as the instruction says
  something_everywhere,   ///< it lies on no stage of the axis
  one_part_per_group,     ///< no other axis cuts it differently along the instruction's axis
  reduction_fits,         ///< the reduction completes what is open, or gives back what the devices have in common
  one_owner_of_summands,  ///< who holds an element does not depend on which summand of it is meant
  result_can_be_held,     ///< the placements of the result go together
  // Computations.
  operands_are_inputs,    ///< the operands stand for the inputs of the node
  inputs_on_stage,        ///< who computes holds all operands
  one_reduction_on_axis,  ///< operands that are partial over one axis leave the same reduction open
  open_axes_undivided,    ///< no axis divides the node over which an operand is partial
  parts_connected,        ///< dividing a factor cuts the result into ranges of one dimension
  tables_not_circular,    ///< how axes divide the node does not depend on each other
  summands_meet_copies,   ///< where one operand is summed over an axis, the others are alike along it
  one_owner_of_points,    ///< who reduces a point does not depend on which summand of an operand is meant
  obligation_proved,      ///< the solver proves the local obligation
};
std::string_view name(Premise premise);

/// A rule and everything it tests of its operand.
struct Rule {
  Opcode opcode;
  std::vector<Premise> premises;
};
/// One rule per opcode.
const std::vector<Rule>& rules();
const Rule& rule_of(Opcode opcode);

/// Outcome of a rule: what the result holds and the lemmas this rests on, or why the rule does not apply.
struct Inference {
  std::optional<Held> result;
  std::string reason;
  std::set<std::string> lemmas;
};

/// Collectives and local movements: all but compute. `without`: a premise that is not tested; for the tests of rules.
Inference infer_movement(const Subject& subject, const Instruction& instruction, const Held& operand,
                         std::optional<Premise> without = std::nullopt);

/// What remains to be proved of a compute instruction for its inference to hold.
struct ComputeInference : Inference {
  Obligation obligation;
};

/// Cuts by (table, elements of a digit per unit of the table): the same pair is the same cut.
using CutNumbers = std::map<std::pair<int, int64_t>, Cut>;

ComputeInference infer_compute(const Subject& subject, const Instruction& instruction,
                               const std::vector<Held>& operands, CutNumbers& cuts,
                               std::optional<Premise> without = std::nullopt);

/// Why the obligation of a compute instruction failed, in plain words.
std::string explain(const Subject& subject, const Instruction& instruction, const std::vector<Held>& operands,
                    const ObligationResult& result);

}  // namespace hetsynth
