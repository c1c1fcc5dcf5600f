// Plans whose collectives go within hosts first.
#pragma once
#include <utility>
#include <vector>

#include "dsl/spmd/hosts.h"

namespace hetsynth {

/// The plan on hosts of so many devices each, with every collective hierarchical that can be.
inline SpmdProgram by_host(SpmdProgram plan, const std::vector<int>& devices) {
  plan.hosts.clear();
  for (size_t host = 0; host < devices.size(); ++host)
    plan.hosts.insert(plan.hosts.end(), size_t(devices[host]), int(host));
  for (Instruction& i : plan.instructions)
    if (communicates(i.opcode) && why_not_hierarchical(plan, i).empty()) i.realisation = Realisation::hierarchical;
  return plan;
}

}  // namespace hetsynth
