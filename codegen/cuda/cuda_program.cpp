#include "codegen/cuda/cuda_program.h"

#include <fmt/format.h>

#include "codegen/cuda/host_text.h"
#include "codegen/cuda/shared_kernels.h"

namespace hetsynth::codegen {

DeviceProgram generate_cuda(const Program& reference, const SpmdProgram& program, const Cluster& cluster, int rank,
                            const cuda::ElementTypes& types) {
  cuda::DeviceSchedule schedule = cuda::schedule(reference, program, cluster, rank, types);
  cuda::share_kernels(schedule);
  DeviceProgram out = describe(schedule.lowered, cluster);
  out.files.push_back({fmt::format("rank{}_host.cpp", rank), cuda::host_text(schedule, cluster)});
  out.files.push_back({fmt::format("rank{}_kernels.cu", rank), cuda::kernels_text(schedule, cluster)});
  return out;
}

}  // namespace hetsynth::codegen
