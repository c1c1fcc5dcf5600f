#include "runtime/cuda/nccl_ranks.h"

#include <fmt/format.h>

#include <stdexcept>

namespace hetsynth::cuda {

NcclUniqueId NcclRanks::id_of(int axis, int first_rank) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto [entry, fresh] = ids_.try_emplace({axis, first_rank});
  if (fresh)
    if (int error = library_.unique_id(&entry->second))
      throw std::runtime_error(fmt::format("ncclGetUniqueId: {}", library_.error_text(error)));
  return entry->second;
}

std::vector<void*> NcclRanks::connect(int rank) {
  std::vector<void*> out;
  // All ranks go through the axes in the same order, so that no two groups wait for each other.
  for (int axis = 0; axis < int(mesh_.axes.size()); ++axis) {
    void* communicator = nullptr;
    int error = library_.init_rank(&communicator, mesh_.axes[size_t(axis)].size,
                                   id_of(axis, mesh_.group(rank, axis).front()), mesh_.coordinate(rank, axis));
    if (error)
      throw std::runtime_error(fmt::format("ncclCommInitRank, axis {}, rank {}: {}", mesh_.axes[size_t(axis)].name,
                                           rank, library_.error_text(error)));
    out.push_back(communicator);
  }
  return out;
}

}  // namespace hetsynth::cuda
