// Everything that is known about a rank before any text is written; shared by the backends.
#pragma once
#include <string>
#include <vector>

#include "codegen/interface/device_program.h"
#include "codegen/passes/grouping.h"
#include "codegen/passes/memory.h"
#include "codegen/passes/names.h"

namespace hetsynth::codegen {

struct Lowered {
  const Program* reference;
  const SpmdProgram* program;
  LocalProgram local;
  Layouts layouts;
  std::vector<Group> groups;  ///< in order of execution
  MemoryPlan memory;
  std::vector<std::string> names;  ///< by ValueId

  const LocalOp& op(const Member& member) const { return local.ops[member.op]; }
  /// The value whose storage this one has; named after it.
  ValueId storage(ValueId value) const;
};

/// Runs localize, lay out, group, plan memory. Program and reference must outlive the result. `beside`: collectives run
/// beside computing where the plan says so. `places`: see generate.
Lowered lower(const Program& reference, const SpmdProgram& program, int rank, const GroupingOptions& options = {},
              bool beside = false, const LeafPlaces* places = nullptr);

/// Arena size and slots: all of the result but the source.
DeviceProgram describe(const Lowered& lowered, const Cluster& cluster);

}  // namespace hetsynth::codegen
