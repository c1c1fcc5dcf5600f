#include <fmt/format.h>

#include "codegen/cpu/step_text.h"
#include "codegen/device_program.h"
#include "codegen/lower.h"

namespace hetsynth {

DeviceProgram generate(const Program& reference, const SpmdProgram& program, const Cluster& cluster, int rank) {
  codegen::Lowered lowered = codegen::lower(reference, program, rank);
  DeviceProgram out = codegen::describe(lowered, cluster);
  if (out.kind == DeviceKind::cuda)
    throw UserError({.where = {cluster.file},
                     .tag = "device " + cluster.devices[rank].name,
                     .message = "source for devices of this kind cannot be generated",
                     .expected = "kind = \"cpu\"",
                     .found = "kind = \"cuda\""});
  out.files.push_back({fmt::format("rank{}.cpp", rank), codegen::cpu_source(lowered, cluster)});
  return out;
}

}  // namespace hetsynth
