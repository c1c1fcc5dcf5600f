#include <fmt/format.h>

#include "codegen/cpu/step_text.h"
#include "codegen/cuda/cuda_program.h"
#include "codegen/device_program.h"
#include "codegen/lower.h"

namespace hetsynth {

DeviceProgram generate(const Program& reference, const SpmdProgram& program, const Cluster& cluster, int rank) {
  if (cluster.devices.at(size_t(rank)).kind == DeviceKind::cuda)
    return codegen::generate_cuda(reference, program, cluster, rank);
  codegen::Lowered lowered = codegen::lower(reference, program, rank);
  DeviceProgram out = codegen::describe(lowered, cluster);
  out.files.push_back({fmt::format("rank{}.cpp", rank), codegen::cpu_source(lowered, cluster)});
  return out;
}

}  // namespace hetsynth
