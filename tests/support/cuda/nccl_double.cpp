// NCCL's double: ranks are threads, operations are parts of their streams. It holds every rank to NCCL's rules:
//   1 every rank of a communicator issues the same sequence of collectives
//   2 the order across communicators is the same on all ranks (else they wait for each other, which is noticed)
//   3 sends and receives match in order, count and type, and stand in one group
//   4 nobody waits for a stream inside of a group (driver_double.cpp)
//   5 a group uses one stream
//   6 all ranks record what they issue for replay, or none does
//   7 buffers overlap only in place, at exactly the rank's offset
//   8 communicators that are aborted do not block, and all of their ranks abort
//   9 a recorded step that uses a communicator is given back before the communicator is, which waits for it otherwise
// A split returns at once, without a communicator: a thread fills the caller's slot in when all ranks have called.
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "tests/support/cuda/double_machine.h"
#include "tests/support/cuda/nccl_meeting.h"

namespace hetsynth::testing_support {
namespace {

constexpr int invalid_argument = 4, remote_error = 6;

struct Communicator {
  std::shared_ptr<Clique> clique;
  int rank;         ///< -1: a part's, not asked for yet
  int parent_rank;  ///< of a part
  Gpu* gpu;
  bool blocking;
  std::atomic<bool> aborted{false};
  std::atomic<bool> recorded{false};  ///< took part in a step that was recorded
  std::atomic<int> splitting{0};      ///< splits under way
  std::vector<std::jthread> splits{};
};

Communicator& communicator_of(void* handle) { return *static_cast<Communicator*>(handle); }

/// Calls of the open group.
struct OpenGroup {
  std::vector<NcclOperation> calls;
  Communicator* communicator = nullptr;
  Stream* stream = nullptr;
};

OpenGroup& open_group() {
  thread_local OpenGroup group;
  return group;
}

}  // namespace

struct NcclDouble {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Clique>> cliques;  ///< by id, and for splits by parent, number and color
  std::vector<std::shared_ptr<Clique>> all;
  int ids = 0, alive = 0;
  std::string problem;  ///< the first rule that was broken where nobody asks for an error any more

  std::shared_ptr<Clique> clique(const std::string& key, int ranks) {
    std::lock_guard<std::mutex> lock(mutex);
    std::shared_ptr<Clique>& entry = cliques[key];
    if (!entry) all.push_back(entry = std::make_shared<Clique>(ranks));
    return entry;
  }
};

std::shared_ptr<NcclDouble> make_nccl() { return std::make_shared<NcclDouble>(); }

namespace {

NcclDouble& library() { return *DoubleMachine::current().nccl; }

Communicator* enter(NcclDouble& nccl, const std::shared_ptr<Clique>& clique, int rank, int parent_rank, Gpu* gpu,
                    bool blocking) {
  auto* communicator = new Communicator{clique, rank, parent_rank, gpu, blocking};
  std::lock_guard<std::mutex> lock(nccl.mutex);
  ++nccl.alive;
  clique->arrive();
  return communicator;
}

int unique_id(cuda::NcclUniqueId* id) {
  std::lock_guard<std::mutex> lock(library().mutex);
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->bytes, sizeof id->bytes, "id %d", ++library().ids);
  return 0;
}

int init_rank(void** communicator, int ranks, cuda::NcclUniqueId id, int rank, cuda::NcclConfig* config) {
  if (rank < 0 || rank >= ranks) return invalid_argument;
  *communicator =
      enter(library(), library().clique(id.bytes, ranks), rank, -1, current_gpu(), !config || config->blocking != 0);
  return cuda::nccl_in_progress;
}

/// As long after the call as it takes that nobody who looks at the slot at once sees it filled.
constexpr auto time_of_a_split = std::chrono::milliseconds(2);

int split(void* parent_handle, int color, int key, void** part, cuda::NcclConfig* config) {
  Communicator& parent = communicator_of(parent_handle);
  *part = nullptr;
  const Clique::Split found = parent.clique->split(parent.rank, color, key);
  NcclDouble& nccl = library();
  // How many share the color is known when all have called: the part is complete then.
  const std::string name = fmt::format("{} split {} color {}", fmt::ptr(parent.clique.get()), found.number, color);
  const auto clique = color == cuda::nccl_no_color ? nullptr : nccl.clique(name, 0);
  if (clique) clique->made_by(parent.clique, found.number, color);
  ++parent.splitting;
  const bool blocking = !config || config->blocking != 0;
  parent.splits.emplace_back([&parent, &nccl, clique, part, number = found.number, blocking] {
    while (!parent.aborted && !parent.clique->all_called(number)) std::this_thread::yield();
    std::this_thread::sleep_for(time_of_a_split);
    // Also for a parent that was aborted: what the slot has then is to be aborted as well.
    if (clique) std::atomic_ref(*part).store(enter(nccl, clique, -1, parent.rank, parent.gpu, blocking));
    --parent.splitting;
  });
  return 0;
}

/// What ends a communicator waits for the threads that split it, and for steps that use it.
void end(Communicator& communicator, const char* call) {
  communicator.splits.clear();
  std::lock_guard<std::mutex> lock(library().mutex);
  --library().alive;
  if (communicator.recorded && communicator.gpu->graphs > 0 && library().problem.empty())
    library().problem =
        fmt::format("GPU {}: {} while a recorded step uses the communicator (rule 9)", communicator.gpu->ordinal, call);
}

int asynchronous_error(void* handle, int* state) {
  Communicator& communicator = communicator_of(handle);
  *state = 0;
  if (!communicator.clique->complete() || communicator.splitting > 0) *state = cuda::nccl_in_progress;
  return 0;
}

int abort(void* handle) {
  Communicator& communicator = communicator_of(handle);
  if (communicator.blocking) communicator.gpu->fail("ncclCommAbort of a communicator that blocks (rule 8)");
  communicator.aborted = true;
  communicator.clique->abort();
  // Operations in the queues still point to it: they end when they are reached.
  return end(communicator, "ncclCommAbort"), 0;
}

int destroy(void* handle) {
  communicator_of(handle).clique->leave();
  return end(communicator_of(handle), "ncclCommDestroy"), 0;
}

/// Rank within the clique; a part's follows from the keys.
int rank_in(Communicator& c) {
  if (c.rank < 0) c.rank = c.clique->rank_of(c.parent_rank);
  return c.rank;
}

/// An operation of a stream: takes part, then waits for what the others bring.
void enqueue_group(OpenGroup group) {
  if (group.calls.empty()) return;
  Communicator* communicator = group.communicator;
  Gpu* gpu = communicator->gpu;
  const int me = rank_in(*communicator);
  auto ticket = std::make_shared<Clique::Ticket>();
  auto calls = std::make_shared<std::vector<NcclOperation>>(std::move(group.calls));
  const std::string name = calls->front().text();
  auto seen = std::make_shared<std::pair<uint64_t, std::chrono::steady_clock::time_point>>();
  const auto run = [=](Toucher& by) {
    DoubleMachine& machine = DoubleMachine::current();
    if (communicator->aborted) return true;
    Clique& clique = *communicator->clique;
    if (!ticket->begun) {
      if (machine.options.before_collective) machine.options.before_collective(gpu->ordinal, name);
      for (const NcclOperation& call : *calls) {
        gpu->touch(call.from, call.source_bytes(clique.size(), me), false, by);
        gpu->touch(call.to, call.destination_bytes(clique.size(), me), false, by);
      }
      clique.join(me, *calls, *ticket);
      *seen = {machine.progress, std::chrono::steady_clock::now()};
    }
    if (!clique.ready(me, *calls, *ticket)) {
      const auto now = std::chrono::steady_clock::now();
      if (const uint64_t progress = machine.progress; progress != seen->first) *seen = {progress, now};
      if (now - seen->second > machine.options.patience)
        gpu->fail(
            fmt::format("GPU {} waits in {} for ranks that never come ({} of {} are there): all streams wait for "
                        "each other",
                        gpu->ordinal, name, clique.arrived(), clique.size()));
      return false;
    }
    for (size_t i = 0; i < calls->size(); ++i) {
      const NcclOperation& call = (*calls)[i];
      const std::vector<char>& result = ticket->results[i];
      if (result.empty() || !gpu->touch(call.to, result.size(), true, by)) continue;
      std::memcpy(call.to, result.data(), result.size());
    }
    return true;
  };
  gpu->enqueue(*group.stream, {.name = name, .run = run});
}

/// All ranks of a communicator record a step, or none does.
void issue_group(OpenGroup group) {
  if (group.calls.empty()) return;
  Gpu* gpu = group.communicator->gpu;
  for (NcclOperation& call : group.calls) call.recorded = gpu->captured != nullptr;
  if (gpu->captured) group.communicator->recorded = true;
  gpu->issue([group] { enqueue_group(group); });
}

int issue(NcclOperation call, void* handle, void* stream_handle) {
  if (!handle) return invalid_argument;
  Communicator& communicator = communicator_of(handle);
  Gpu& gpu = *communicator.gpu;
  auto* stream = static_cast<Stream*>(stream_handle);
  const int me = rank_in(communicator), size = communicator.clique->size();
  const std::string problem = overlap_problem(call, me, size);
  if (!problem.empty()) gpu.fail(fmt::format("GPU {}: {} (rule 7)", gpu.ordinal, problem));
  if (call.point_to_point() && open_groups() == 0)
    gpu.fail(fmt::format("GPU {}: {} outside of a group (rule 3)", gpu.ordinal, call.text()));
  gpu.collectives.push_back(call.text());
  OpenGroup& group = open_group();
  if (!group.calls.empty() && group.stream != stream)
    gpu.fail(fmt::format("GPU {}: {} on another stream than the rest of its group (rule 5)", gpu.ordinal, call.text()));
  if (!group.calls.empty() && group.communicator != &communicator)
    gpu.fail(fmt::format("GPU {}: {} joins a group of another communicator", gpu.ordinal, call.text()));
  group.communicator = &communicator, group.stream = stream;
  group.calls.push_back(call);
  if (open_groups() == 0) issue_group(std::exchange(group, {}));
  return gpu.problem.empty() ? 0 : remote_error;
}

}  // namespace

std::string left_behind(const NcclDouble& nccl) {
  if (!nccl.problem.empty()) return nccl.problem;
  for (const auto& clique : nccl.all)
    if (const std::string problem = clique->unequal_end(); !problem.empty()) return problem;
  return nccl.alive ? fmt::format("{} communicators", nccl.alive) : "";
}

void fill_nccl(cuda::Nccl& n) {
  n.version = [](int* version) {
    const MachineOptions& options = DoubleMachine::current().options;
    const auto own = current_gpu() ? options.nccl_versions.find(current_gpu()->ordinal) : options.nccl_versions.end();
    return *version = own == options.nccl_versions.end() ? options.nccl_version : own->second, 0;
  };
  n.unique_id = unique_id;
  n.init_rank = init_rank;
  n.split = split;
  n.asynchronous_error = asynchronous_error;
  n.finalize = [](void*) { return 0; };
  n.abort = abort;
  n.destroy = destroy;
  n.error_text = [](int error) -> const char* {
    thread_local std::string text;
    text =
        current_gpu() && !current_gpu()->problem.empty() ? current_gpu()->problem : fmt::format("NCCL error {}", error);
    return text.c_str();
  };
  n.group_start = [] { return ++open_groups(), 0; };
  n.group_end = [] {
    if (open_groups() == 0) return invalid_argument;
    if (--open_groups() == 0) issue_group(std::exchange(open_group(), {}));
    return 0;
  };
  fill_operations<issue>(n);
}

int& open_groups() {
  thread_local int depth = 0;
  return depth;
}

}  // namespace hetsynth::testing_support
