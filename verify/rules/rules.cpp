#include "verify/rules/rules.h"

#include <algorithm>

#include "dsl/base/error.h"

namespace hetsynth {

std::string_view name(Premise premise) {
  static constexpr std::string_view names[] = {
      "whole_on_axis",         "whole_or_on_root",     "on_root",
      "source_cut_so",         "source_can_be_cut_so", "something_everywhere",
      "one_part_per_group",    "reduction_fits",       "one_owner_of_summands",
      "result_can_be_held",    "operands_are_inputs",  "inputs_on_stage",
      "one_reduction_on_axis", "open_axes_undivided",  "parts_connected",
      "tables_not_circular",   "summands_meet_copies", "one_owner_of_points",
      "obligation_proved",
  };
  return names[int(premise)];
}

const std::vector<Rule>& rules() {
  using P = Premise;
  static const std::vector<Rule> list = {
      {Opcode::compute,
       {P::operands_are_inputs, P::inputs_on_stage, P::one_reduction_on_axis, P::open_axes_undivided,
        P::parts_connected, P::tables_not_circular, P::summands_meet_copies, P::one_owner_of_points,
        P::one_owner_of_summands, P::obligation_proved}},
      {Opcode::slice, {P::whole_on_axis, P::result_can_be_held, P::one_owner_of_summands}},
      {Opcode::to_partial,
       {P::whole_or_on_root, P::one_part_per_group, P::result_can_be_held, P::one_owner_of_summands}},
      {Opcode::all_gather,
       {P::one_part_per_group, P::source_cut_so, P::source_can_be_cut_so, P::one_owner_of_summands}},
      {Opcode::all_reduce, {P::one_part_per_group, P::something_everywhere, P::reduction_fits}},
      {Opcode::reduce_scatter,
       {P::one_part_per_group, P::something_everywhere, P::reduction_fits, P::result_can_be_held}},
      {Opcode::all_to_all,
       {P::one_part_per_group, P::source_cut_so, P::source_can_be_cut_so, P::one_owner_of_summands,
        P::result_can_be_held}},
      {Opcode::broadcast, {P::one_part_per_group, P::whole_or_on_root}},
      {Opcode::send, {P::one_part_per_group, P::on_root}},
      {Opcode::halo_exchange, {P::one_part_per_group, P::source_cut_so, P::result_can_be_held}},
  };
  return list;
}

const Rule& rule_of(Opcode opcode) {
  const auto found = std::find_if(rules().begin(), rules().end(), [&](const Rule& r) { return r.opcode == opcode; });
  HETSYNTH_CHECK(found != rules().end(), "every opcode has a rule");
  return *found;
}

}  // namespace hetsynth
