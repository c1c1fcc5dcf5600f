#include "tests/gpu/one_gpu_nccl.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "tests/support/cuda/nccl_operation.h"

namespace hetsynth::testing {
namespace {

using cuda::DevicePointer;
using testing_support::NcclOperation;
using Kind = NcclOperation::Kind;

constexpr int version_with_shared_gpus = 23000;
constexpr int internal_error = 3, invalid_usage = 5, remote_error = 6;
constexpr std::chrono::seconds patience{60};

const char* const combine_kernel = R"(
extern "C" __global__ void combine(float* to, const float* from, const long long* how) {
  const long long count = how[0], op = how[1];
  for (long long at = (long long)blockIdx.x * 256 + threadIdx.x; at < count; at += (long long)gridDim.x * 256) {
    const float a = to[at], b = from[at];
    to[at] = op == 1 ? a * b : op == 2 ? (a < b ? b : a) : op == 3 ? (b < a ? b : a) : a + b;
  }
}
extern "C" __global__ void divide(float* to, const long long* how) {
  const long long count = how[0], ranks = how[1];
  for (long long at = (long long)blockIdx.x * 256 + threadIdx.x; at < count; at += (long long)gridDim.x * 256) to[at] /= (float)ranks;
}
)";

struct Member;

/// Ranks that meet: each posts its calls, waits for all, carries out its own part, and waits again.
struct Meeting {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Member*> members;
  int arrived = 0;
  uint64_t round = 0;
  bool aborted = false;

  /// False: a rank is gone.
  bool wait_for_all() {
    std::unique_lock<std::mutex> lock(mutex);
    const uint64_t mine = round;
    if (++arrived == int(members.size())) {
      arrived = 0, ++round;
      changed.notify_all();
    } else if (!changed.wait_for(lock, patience, [&] { return round != mine || aborted; })) {
      aborted = true;
    }
    return !aborted;
  }
  void abort() {
    std::lock_guard<std::mutex> lock(mutex);
    aborted = true;
    changed.notify_all();
  }
};

struct Shared {
  const cuda::Driver* driver = nullptr;
  std::string code;
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Meeting>> meetings;
  int ids = 0;
};
Shared* shared = nullptr;

/// A rank's part of a communicator.
struct Member {
  std::shared_ptr<Meeting> meeting;
  int rank = 0;
  void *module = nullptr, *combine = nullptr, *divide = nullptr, *ready = nullptr, *done = nullptr;
  std::map<std::pair<int64_t, int64_t>, DevicePointer> hows;  ///< by contents: pairs of numbers that kernels read
  std::vector<NcclOperation> calls;

  const cuda::Driver& driver() const { return *shared->driver; }
  int ranks() const { return int(meeting->members.size()); }

  int open() {
    int error = driver().module_load(&module, shared->code.data());
    if (!error) error = driver().module_function(&combine, module, "combine");
    if (!error) error = driver().module_function(&divide, module, "divide");
    if (!error) error = driver().event_create(&ready, cuda::event_disable_timing);
    return error ? error : driver().event_create(&done, cuda::event_disable_timing);
  }

  ~Member() {
    for (const auto& [numbers, pointer] : hows) driver().free(pointer);
    for (void* event : {ready, done})
      if (event) driver().event_destroy(event);
    if (module) driver().module_unload(module);
  }

  /// Two numbers on the device; written once.
  int numbers(int64_t first, int64_t second, void* stream, DevicePointer* out) {
    const auto [entry, fresh] = hows.try_emplace({first, second});
    *out = entry->second;
    if (!fresh) return 0;
    const int64_t both[2] = {first, second};
    int error = driver().allocate(&entry->second, sizeof both);
    if (!error) error = driver().copy_to_device(entry->second, both, sizeof both, stream);
    *out = entry->second;
    return error ? error : driver().stream_synchronize(stream);
  }

  int copy(void* to, const void* from, size_t bytes, void* stream) {
    if (to == from || bytes == 0) return 0;
    return driver().copy_on_device(reinterpret_cast<DevicePointer>(to), reinterpret_cast<DevicePointer>(from), bytes,
                                   stream);
  }

  /// to = what lies `offset` elements into the operands of call `number` of all ranks, combined in the order of ranks.
  int combined(size_t number, int64_t offset, void* stream) {
    const NcclOperation& own = calls[number];
    if (own.type != cuda::nccl_float32) return internal_error;
    const auto operand = [&](int rank) {
      return reinterpret_cast<const float*>(meeting->members[size_t(rank)]->calls[number].from) + offset;
    };
    int error = copy(own.to, operand(0), size_t(own.count) * sizeof(float), stream);
    DevicePointer how = 0;
    if (!error) error = numbers(own.count, own.op, stream, &how);
    const unsigned blocks = unsigned(std::min<int64_t>(1024, (own.count + 255) / 256));
    for (int rank = 1; rank < ranks() && !error; ++rank) {
      const float* from = operand(rank);
      void* to = own.to;
      void* arguments[] = {&to, &from, &how, nullptr};
      error = driver().launch(combine, blocks, 1, 1, 256, 1, 1, 0, stream, arguments, nullptr);
    }
    if (error || own.op != cuda::nccl_average) return error;
    error = numbers(own.count, ranks(), stream, &how);
    void* to = own.to;
    void* arguments[] = {&to, &how, nullptr};
    return error ? error : driver().launch(divide, blocks, 1, 1, 256, 1, 1, 0, stream, arguments, nullptr);
  }

  /// The k-th send of a peer to this rank answers the k-th receive from it.
  const NcclOperation* sent(size_t number) const {
    const NcclOperation& own = calls[number];
    int before = 0;
    for (size_t i = 0; i < number; ++i) before += calls[i].kind == Kind::receive && calls[i].peer == own.peer;
    for (const NcclOperation& call : meeting->members[size_t(own.peer)]->calls)
      if (call.kind == Kind::send && call.peer == rank && before-- == 0) return &call;
    return nullptr;
  }

  int carry_out(size_t number, void* stream) {
    const NcclOperation& own = calls[number];
    const size_t bytes = size_t(own.count * own.element_bytes());
    switch (own.kind) {
      case Kind::all_gather:
        for (int rank = 0; rank < ranks(); ++rank)
          if (int error = copy(own.to + size_t(rank) * bytes, meeting->members[size_t(rank)]->calls[number].from, bytes,
                               stream))
            return error;
        return 0;
      case Kind::all_reduce:
        return combined(number, 0, stream);
      case Kind::reduce_scatter:
        return combined(number, rank * own.count, stream);
      case Kind::broadcast:
        return copy(own.to, meeting->members[size_t(own.peer)]->calls[number].from, bytes, stream);
      case Kind::reduce:
        return rank == own.peer ? combined(number, 0, stream) : 0;
      case Kind::send:
        return 0;
      case Kind::receive:
        const NcclOperation* from = sent(number);
        return from ? copy(own.to, from->from, bytes, stream) : internal_error;
    }
    return internal_error;
  }

  int run(void* stream) {
    int error = driver().event_record(ready, stream);
    if (error || !meeting->wait_for_all()) return give_up();
    for (Member* member : meeting->members)
      if (member != this && !error) error = driver().stream_wait(stream, member->ready, 0);
    for (size_t i = 0; i < calls.size() && !error; ++i) error = carry_out(i, stream);
    if (!error) error = driver().event_record(done, stream);
    if (error || !meeting->wait_for_all()) return give_up();
    // Nobody goes on to overwrite what another one still reads.
    for (Member* member : meeting->members)
      if (member != this && !error) error = driver().stream_wait(stream, member->done, 0);
    calls.clear();
    return error ? internal_error : 0;
  }

  int give_up() {
    meeting->abort();
    return remote_error;
  }
};

struct Group {
  int depth = 0;
  Member* member = nullptr;
  void* stream = nullptr;
};
Group& group() {
  thread_local Group open;
  return open;
}

int issue(NcclOperation call, void* communicator, void* stream) {
  auto* const member = static_cast<Member*>(communicator);
  member->calls.push_back(call);
  if (group().depth == 0) return member->run(stream);
  group().member = member, group().stream = stream;
  return 0;
}

int join(void** communicator, int ranks, cuda::NcclUniqueId id, int rank, cuda::NcclConfig*) {
  auto member = std::make_unique<Member>();
  {
    std::lock_guard<std::mutex> lock(shared->mutex);
    std::shared_ptr<Meeting>& meeting = shared->meetings[{id.bytes, sizeof id.bytes}];
    if (!meeting) {
      meeting = std::make_shared<Meeting>();
      meeting->members.assign(size_t(ranks), nullptr);
    }
    member->meeting = meeting;
    meeting->members[size_t(rank)] = member.get();
  }
  member->rank = rank;
  const int error = member->open();
  if (error || !member->meeting->wait_for_all()) return member->give_up();
  *communicator = member.release();
  return 0;
}

cuda::Nccl table() {
  cuda::Nccl n;
  n.version = [](int* version) { return *version = version_with_shared_gpus, 0; };
  n.unique_id = [](cuda::NcclUniqueId* id) {
    std::lock_guard<std::mutex> lock(shared->mutex);
    std::memset(id, 0, sizeof *id);
    return std::memcpy(id->bytes, &++shared->ids, sizeof shared->ids), 0;
  };
  n.init_rank = join;
  n.split = [](void*, int, int, void**, cuda::NcclConfig*) { return invalid_usage; };
  n.asynchronous_error = [](void* communicator, int* state) {
    return *state = static_cast<Member*>(communicator)->meeting->aborted ? remote_error : 0, 0;
  };
  n.finalize = [](void*) { return 0; };
  n.abort = [](void* communicator) {
    // Its memory is left to the process: others may be reading what it posted.
    return static_cast<Member*>(communicator)->meeting->abort(), 0;
  };
  n.destroy = [](void* communicator) { return delete static_cast<Member*>(communicator), 0; };
  n.error_text = [](int error) {
    return error == invalid_usage  ? "one mesh axis only where ranks share a GPU"
           : error == remote_error ? "another rank is gone"
                                   : "a call of the driver failed";
  };
  n.group_start = [] { return ++group().depth, 0; };
  n.group_end = [] {
    Group& open = group();
    if (--open.depth > 0 || !open.member) return 0;
    Member* const member = open.member;
    open.member = nullptr;
    return member->run(open.stream);
  };
  testing_support::fill_operations<issue>(n);
  return n;
}

}  // namespace

OneGpuNccl::OneGpuNccl(const cuda::Backend& machine, const std::string& architecture)
    : api_(*machine.api), backend_(machine) {
  if (shared) throw std::runtime_error("one OneGpuNccl at a time");
  const CudaCode code = machine.compile(combine_kernel, "combine.cu", architecture);
  if (!code.ok()) throw std::runtime_error("the kernels of collectives do not compile:\n" + code.log);
  api_.nccl = table();
  api_.has_nccl = true;
  backend_.api = &api_;
  shared = new Shared;
  shared->driver = &machine.api->driver;
  shared->code = code.cubin;
}

OneGpuNccl::~OneGpuNccl() {
  delete shared;
  shared = nullptr;
}

}  // namespace hetsynth::testing
