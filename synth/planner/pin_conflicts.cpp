#include "synth/planner/pin_conflicts.h"

#include "dsl/base/error.h"
#include "synth/baselines/baselines.h"
#include "synth/mesh/meshes.h"
#include "synth/network/search.h"

namespace hetsynth::synth {
namespace {

/// Whether some plan keeps to the pins, whatever its cost and memory.
bool possible(const Problem& free, const PlanPins& pins) {
  auto analysis = pins.mesh.size() > 1 ? std::make_shared<const Analysis>(free.program, 2) : free.analysis;
  Mesh mesh = free.mesh;
  if (pins.mesh.size() > 1) mesh = mesh_of(pins.mesh);
  Problem problem(analysis, free.cluster, mesh);
  problem.constrain(pins);
  Shares shares = common_shares(problem.classes, fractions_of(problem, RatioRule::even));
  Conversions conversions(*problem.analysis, problem.cost, shares);
  SearchLimits any;
  any.tolerance = 1e3;
  return !search(problem, conversions, shares, {}, any).choices.empty();
}

}  // namespace

void throw_no_plan(const Problem& free, PlanPins pins) {
  const bool conflict = !possible(free, pins);
  for (size_t i = 0; conflict && i < pin_texts(pins).size();) {
    PlanPins fewer = without_pin(pins, i);
    if (possible(free, fewer))
      ++i;
    else
      pins = std::move(fewer);
  }
  std::string list;
  for (const std::string& text : pin_texts(pins)) list += (list.empty() ? "" : ", ") + text;
  throw UserError({.tag = "pins",
                   .message = conflict ? "no plan keeps to these pins together"
                                       : "no plan that keeps to the pins was found in the time given",
                   .expected = conflict ? "pins that some program meets" : "more time",
                   .found = list,
                   .mend = conflict ? "leave out one of them" : "raise --time-limit, or leave out a pin"},
                  ExitCode::infeasible);
}

}  // namespace hetsynth::synth
