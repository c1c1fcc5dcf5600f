#include "codegen/cuda/host/cuda_program.h"

#include <fmt/format.h>

#include <span>

#include "codegen/cuda/host/host_text.h"
#include "codegen/cuda/host/shared_kernels.h"

namespace hetsynth::codegen {
DeviceProgram generate_cuda(const Program& reference, const SpmdProgram& program, const Cluster& cluster, int rank,
                            const cuda::ElementTypes& types) {
  // Devices of other kinds carry collectives out in the order of the plan, and meet GPUs in them.
  const std::span<const Device> ranks = std::span(cluster.devices).first(size_t(program.mesh.device_count()));
  const bool buckets = all_of_kind(ranks, DeviceKind::cuda);
  const BucketedProgram bucketed =
      buckets ? gather_buckets(reference, program, DeviceKind::cuda) : without_buckets(program);
  cuda::DeviceSchedule schedule = cuda::schedule(reference, bucketed, cluster, rank, types);
  cuda::share_kernels(schedule);
  DeviceProgram out = describe(schedule.lowered, cluster);
  out.buckets = buckets;
  out.files.push_back({fmt::format("rank{}_host.cpp", rank), cuda::host_text(schedule, cluster)});
  out.files.push_back({fmt::format("rank{}_kernels.cu", rank), cuda::kernels_text(schedule, cluster)});
  return out;
}

}  // namespace hetsynth::codegen
