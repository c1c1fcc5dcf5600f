#include "runtime/cuda/nccl_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "dsl/spmd/hosts.h"

namespace hetsynth::cuda {

namespace {

/// What NCCL put into a slot, perhaps just now by a thread of its own; nullptr: nothing yet.
void* filled(void*& slot) { return std::atomic_ref(slot).load(); }

}  // namespace

std::string nccl_version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

std::vector<int> NcclRanks::gpus_along(int rank, int axis) const {
  std::vector<int> out;
  for (int member : mesh_.group(rank, axis))
    if (on_gpu(member)) out.push_back(member);
  return out;
}

std::vector<int> NcclRanks::on_host(int rank, int axis) const {
  const std::vector<int> group = mesh_.group(rank, axis);
  if (gpus_along(rank, axis) != group) return {};
  const GroupHosts at = hosts_of_group(mesh_, hosts_, axis, rank);
  return {group.begin() + at.first[size_t(at.host)], group.begin() + at.first[size_t(at.host) + 1]};
}

std::vector<int> NcclRanks::leaders(int rank, int axis) const {
  const std::vector<int> group = mesh_.group(rank, axis);
  if (gpus_along(rank, axis) != group) return {};
  const GroupHosts at = hosts_of_group(mesh_, hosts_, axis, rank);
  std::vector<int> out;
  for (int h = 0; h < at.count(); ++h) out.push_back(group[size_t(at.first[size_t(h)])]);
  return out;
}

std::vector<int> NcclRanks::gpus() const {
  std::vector<int> out;
  for (int rank = 0; rank < int(on_gpu_.size()); ++rank)
    if (on_gpu(rank)) out.push_back(rank);
  return out;
}

int NcclRanks::loaded_version() const {
  int version = 0;
  if (int error = library_.version(&version))
    throw std::runtime_error(fmt::format("ncclGetVersion: {}", library_.error_text(error)));
  return version;
}

void NcclRanks::make_id(int rank, int version) {
  NcclUniqueId id;
  if (int error = library_.unique_id(&id))
    throw std::runtime_error(fmt::format("ncclGetUniqueId: {}", library_.error_text(error)));
  id_ = id, first_rank_ = rank, version_ = version;
}

void NcclRanks::refuse_version(int version) const {
  throw std::runtime_error(fmt::format(
      "NCCL {} is loaded here and NCCL {} on rank {}: all ranks need the same version; set LD_LIBRARY_PATH so that "
      "they find the same libnccl.so.2",
      nccl_version_text(version), nccl_version_text(version_), first_rank_));
}

void NcclRanks::meet(Job& job, const ProcessOfRank& process_of) {
  const std::vector<int> all = gpus();
  if (all.size() < 2) return;
  const int first = process_of.at(size_t(all.front()));
  struct Words {
    int version = 0;
    NcclUniqueId id{};
  } words;
  const bool has_gpu =
      std::any_of(all.begin(), all.end(), [&](int rank) { return process_of.at(size_t(rank)) == job.process(); });
  if (has_gpu) words.version = loaded_version();
  if (first == job.process()) {
    make_id(all.front(), words.version);
    words.id = *id_;
  }
  const std::string heard = job.exchange({reinterpret_cast<const char*>(&words), sizeof words}).at(size_t(first));
  if (!has_gpu || first == job.process()) return;
  Words theirs;
  std::memcpy(&theirs, heard.data(), std::min(heard.size(), sizeof theirs));
  id_ = theirs.id, first_rank_ = all.front(), version_ = theirs.version;
  if (words.version != version_) refuse_version(words.version);
}

NcclUniqueId NcclRanks::id_for(int rank) {
  const int version = loaded_version();
  std::lock_guard<std::mutex> lock(mutex_);
  if (!id_) make_id(rank, version);
  if (version != version_) refuse_version(version);
  return *id_;
}

NcclConnection::NcclConnection(NcclRanks& ranks, int rank, std::function<bool()> stop)
    : library_(ranks.library()), stop_(std::move(stop)) {
  try {
    connect(ranks, rank);
  } catch (...) {
    abort();
    throw;
  }
}

void NcclConnection::connect(NcclRanks& ranks, int rank) {
  NcclConfig config;
  const std::vector<int> all = ranks.gpus();
  for (std::vector<void*>* parts : {&along_, &on_host_, &leaders_, &rising_, &falling_})
    parts->assign(ranks.mesh().axes.size(), nullptr);
  if (all.size() < 2) return;
  const auto place = [&](const std::vector<int>& list) {
    return int(std::find(list.begin(), list.end(), rank) - list.begin());
  };
  void*& slot = slots_.emplace_back(nullptr);
  require_made(library_.init_rank(&slot, int(all.size()), ranks.id_for(rank), place(all), &config),
               "ncclCommInitRankConfig");
  void* const whole = filled(slot);
  // All ranks go through the axes in the same order, as every split is a meeting of all.
  for (size_t axis = 0; axis < along_.size(); ++axis) {
    const std::vector<int> group = ranks.gpus_along(rank, int(axis));
    along_[axis] = ranks.mesh().axes.size() == 1 ? whole : split(group, rank);
  }
  for (int axis : ranks.levelled_axes()) {
    on_host_[size_t(axis)] = split(ranks.on_host(rank, axis), rank);
    leaders_[size_t(axis)] = split(ranks.leaders(rank, axis), rank);
  }
  for (int axis : ranks.sending_axes())
    for (std::vector<void*>* parts : {&rising_, &falling_})
      (*parts)[size_t(axis)] = split(ranks.gpus_along(rank, axis), rank);
}

/// A meeting of all ranks; those of each part get a communicator. nullptr where the rank is not of the part, or alone.
/// Whatever the call returns, a thread of NCCL fills the slot in later: it is looked at when the communicator that is
/// split is at rest again.
void* NcclConnection::split(const std::vector<int>& part, int rank) {
  NcclConfig config;
  const auto at = std::find(part.begin(), part.end(), rank);
  const int color = part.size() > 1 && at != part.end() ? part.front() : nccl_no_color;
  void*& slot = slots_.emplace_back(nullptr);
  const int status = library_.split(made().front(), color, int(at - part.begin()), &slot, &config);
  require_made(status, "ncclCommSplit");
  void* const made = filled(slot);
  if (!made && color != nccl_no_color)
    throw std::runtime_error("ncclCommSplit: NCCL came to rest without a communicator for the part");
  return made;
}

std::vector<void*> NcclConnection::made() {
  std::vector<void*> out;
  for (void*& slot : slots_)
    if (void* communicator = filled(slot)) out.push_back(communicator);
  return out;
}

int NcclConnection::settle(int status) {
  while (status == nccl_in_progress) {
    status = 0;
    // In order of their making: once the first is at rest, the slots of those split from it are filled.
    for (void*& slot : slots_) {
      void* const communicator = filled(slot);
      if (!communicator) continue;
      int state = 0;
      if (int error = library_.asynchronous_error(communicator, &state)) return error;
      if (state != 0) status = state;
      if (state != 0 && state != nccl_in_progress) return state;
    }
    if (status == nccl_in_progress) {
      if (stop_()) return status;
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
  return status;
}

int NcclConnection::broken() {
  for (void* communicator : made()) {
    int state = 0;
    if (int error = library_.asynchronous_error(communicator, &state)) return error;
    if (state != 0 && state != nccl_in_progress) return state;
  }
  return 0;
}

void NcclConnection::require(int status, const char* call) {
  status = settle(status);
  if (status == nccl_in_progress) throw std::runtime_error(fmt::format("{}: left, as another rank failed", call));
  if (status) throw std::runtime_error(fmt::format("{}: {}", call, library_.error_text(status)));
}

/// What makes communicators may say at once that it is done, and be at work all the same.
void NcclConnection::require_made(int status, const char* call) {
  require(status == 0 ? nccl_in_progress : status, call);
}

void NcclConnection::abort() {
  // Parts before the communicator they were split from. Its end waits for NCCL's threads, which may have made another
  // part meanwhile.
  const std::vector<void*> known = made();
  for (size_t i = known.size(); i-- > 0;) library_.abort(known[i]);
  for (void* late : made())
    if (std::find(known.begin(), known.end(), late) == known.end()) library_.abort(late);
  for (void*& slot : slots_) std::atomic_ref(slot).store(nullptr);
  for (std::vector<void*>* parts : {&along_, &on_host_, &leaders_, &rising_, &falling_})
    std::fill(parts->begin(), parts->end(), nullptr);
}

NcclConnection::~NcclConnection() {
  const std::vector<void*> communicators = made();
  for (size_t i = communicators.size(); i-- > 0;) {
    int status = library_.finalize(communicators[i]);
    while (status == nccl_in_progress && !stop_()) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      if (library_.asynchronous_error(communicators[i], &status)) break;
    }
    if (status == 0)
      library_.destroy(communicators[i]);
    else
      library_.abort(communicators[i]);
  }
}

}  // namespace hetsynth::cuda
