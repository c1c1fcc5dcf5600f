#include "cuda_cluster_double.h"

#include <fmt/format.h>

#include <cmath>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "codegen/abi.h"
#include "dsl/jit/compiled_code.h"

namespace hetsynth::testing_support {
namespace {

using Task = std::function<void()>;

struct Collective {
  enum class Kind { all_gather, all_reduce, reduce_scatter, broadcast, reduce, send, receive } kind;
  const char* from;
  char* to;
  int64_t count;
  int type, op, peer;

  std::string text() const {
    static const char* names[] = {"all_gather", "all_reduce", "reduce_scatter", "broadcast",
                                  "reduce",     "send",       "receive"};
    return fmt::format("{} {} {} op {} peer {}", names[int(kind)], count, type == 7 ? "f32" : "i32", op, peer);
  }
  bool point_to_point() const { return kind == Kind::send || kind == Kind::receive; }
};

/// The ranks of one group along a mesh axis meet here; the last to come carries out the whole group of calls.
class Meeting {
 public:
  explicit Meeting(int ranks) : calls_(size_t(ranks)) {}

  /// Sends and receives concern the two ranks of a pair alone; collectives concern all.
  void join(int me, const std::vector<Collective>& calls) {
    std::vector<Collective> together;
    for (const Collective& call : calls) {
      if (call.kind == Collective::Kind::send) post(me, call);
      if (!call.point_to_point()) together.push_back(call);
    }
    for (const Collective& call : calls)
      if (call.kind == Collective::Kind::receive) fetch(me, call);
    if (!together.empty()) meet(me, std::move(together));
  }

  /// A rank has failed: the others must not wait for it.
  void abandon(const std::string& problem) {
    std::lock_guard<std::mutex> lock(mutex_);
    fail(problem);
  }

  void end_step() const {
    for (const auto& [pair, queue] : mail_)
      if (!queue.empty())
        throw std::runtime_error(fmt::format("rank {} sends what rank {} does not receive", pair.first, pair.second));
  }

 private:
  /// Waits until `ready`; a rank that failed, or that never comes, ends the wait for all.
  template <class Ready>
  void wait(std::unique_lock<std::mutex>& lock, const Ready& ready) {
    bool came = condition_.wait_for(lock, std::chrono::seconds(60), [&] { return ready() || !problem_.empty(); });
    if (!came) fail("a rank never came to a transfer");
    if (!problem_.empty()) throw std::runtime_error(problem_);
  }

  void fail(const std::string& problem) {
    if (problem_.empty()) problem_ = problem;
    condition_.notify_all();
  }

  void meet(int me, std::vector<Collective> calls) {
    std::unique_lock<std::mutex> lock(mutex_);
    calls_[size_t(me)] = std::move(calls);
    int round = round_;
    if (++arrived_ < int(calls_.size())) return wait(lock, [&] { return round_ != round; });
    try {
      carry_out();
    } catch (const std::exception& error) {
      fail(error.what());
      throw;
    }
    arrived_ = 0, ++round_;
    condition_.notify_all();
  }

  void post(int me, const Collective& call) {
    std::lock_guard<std::mutex> lock(mutex_);
    mail_[{me, call.peer}].push_back({call.type, {call.from, call.from + call.count * 4}});
    condition_.notify_all();
  }

  void fetch(int me, const Collective& call) {
    std::unique_lock<std::mutex> lock(mutex_);
    auto& queue = mail_[{call.peer, me}];
    wait(lock, [&] { return !queue.empty(); });
    const auto& [type, bytes] = queue.front();
    if (type != call.type || int64_t(bytes.size()) != call.count * 4) {
      fail(fmt::format("rank {} receives {} elements from {}, which sends {}", me, call.count, call.peer,
                       bytes.size() / 4));
      throw std::runtime_error(problem_);
    }
    std::memcpy(call.to, bytes.data(), bytes.size());
    queue.pop_front();
  }

  void carry_out() {
    const std::vector<std::vector<Collective>>& together = calls_;
    for (size_t r = 1; r < calls_.size(); ++r) {
      if (together[r].size() != together[0].size())
        throw std::runtime_error(fmt::format("rank {} issues {} collectives where rank 0 issues {}", r,
                                             together[r].size(), together[0].size()));
      for (size_t i = 0; i < together[r].size(); ++i)
        if (together[r][i].text() != together[0][i].text())
          throw std::runtime_error(
              fmt::format("rank {} issues {} where rank 0 issues {}", r, together[r][i].text(), together[0][i].text()));
    }
    for (size_t i = 0; i < together[0].size(); ++i) {
      std::vector<Collective> ranks;
      for (const auto& calls : together) ranks.push_back(calls[i]);
      carry_out(ranks);
    }
  }

  template <class T>
  static T combine(T a, T b, int op) {
    if (op == 1) return a * b;
    if (op == 2) return std::max(a, b);
    if (op == 3) return std::min(a, b);
    return a + b;
  }

  template <class T>
  static std::vector<T> reduced(const std::vector<Collective>& ranks, int64_t begin, int64_t count) {
    std::vector<T> out(reinterpret_cast<const T*>(ranks[0].from) + begin,
                       reinterpret_cast<const T*>(ranks[0].from) + begin + count);
    for (size_t r = 1; r < ranks.size(); ++r)
      for (int64_t i = 0; i < count; ++i)
        out[size_t(i)] = combine(out[size_t(i)], reinterpret_cast<const T*>(ranks[r].from)[begin + i], ranks[0].op);
    if (ranks[0].op == 4)
      for (T& v : out) v = T(v / T(ranks.size()));
    return out;
  }

  static void carry_out(const std::vector<Collective>& ranks) {
    if (ranks[0].type == 7)
      carry_out_as<float>(ranks);
    else
      carry_out_as<int>(ranks);
  }

  template <class T>
  static void carry_out_as(const std::vector<Collective>& ranks) {
    int64_t count = ranks[0].count, n = int64_t(ranks.size());
    size_t bytes = size_t(count) * sizeof(T);
    switch (ranks[0].kind) {
      case Collective::Kind::all_gather: {
        std::vector<char> whole;
        for (const Collective& c : ranks) whole.insert(whole.end(), c.from, c.from + bytes);
        for (const Collective& c : ranks) std::memcpy(c.to, whole.data(), whole.size());
        break;
      }
      case Collective::Kind::broadcast: {
        std::vector<char> sent(ranks[size_t(ranks[0].peer)].from, ranks[size_t(ranks[0].peer)].from + bytes);
        for (const Collective& c : ranks) std::memcpy(c.to, sent.data(), bytes);
        break;
      }
      case Collective::Kind::all_reduce: {
        std::vector<T> sum = reduced<T>(ranks, 0, count);
        for (const Collective& c : ranks) std::memcpy(c.to, sum.data(), bytes);
        break;
      }
      case Collective::Kind::reduce: {
        std::vector<T> sum = reduced<T>(ranks, 0, count);
        std::memcpy(ranks[size_t(ranks[0].peer)].to, sum.data(), bytes);
        break;
      }
      case Collective::Kind::reduce_scatter: {
        std::vector<T> sum = reduced<T>(ranks, 0, count * n);
        for (size_t r = 0; r < ranks.size(); ++r) std::memcpy(ranks[r].to, sum.data() + int64_t(r) * count, bytes);
        break;
      }
      default:
        break;
    }
  }

  std::mutex mutex_;
  std::condition_variable condition_;
  std::vector<std::vector<Collective>> calls_;
  std::map<std::pair<int, int>, std::deque<std::pair<int, std::vector<char>>>> mail_;  ///< by sender and receiver
  std::string problem_;
  int arrived_ = 0, round_ = 0;
};

struct Communicator {
  Meeting* meeting;
  int me, ranks;
};

struct Operation {
  Task task;  ///< empty: a record or a wait
  int record = -1, wait = -1;
  int version = 0;  ///< wait: how many records of the event must have been carried out
};

/// One rank: its arena, its two queues and its programs.
struct Rank {
  DeviceProgram program;
  std::vector<char> storage;
  char* arena = nullptr;
  int64_t leaf_bytes = 0;
  NativeModule host;
  std::unique_ptr<EmulatedKernels> kernels;
  std::vector<Communicator> communicators;  ///< by mesh axis
  Turns turns = Turns::forward;
  std::deque<Operation> streams[2];
  std::map<int, int> recorded_at_issue, recorded;
  std::vector<Collective> group;
  void* group_communicator = nullptr;
  int group_depth = 0;
  std::vector<std::string> log;
  std::string problem;

  bool in_arena(const void* pointer, int64_t bytes) const {
    const char* p = static_cast<const char*>(pointer);
    return bytes == 0 || (p >= arena && p + bytes <= arena + program.arena_bytes);
  }

  /// Carries out the queued work, the eager stream first wherever the events leave a choice.
  void drain(Eager eager) {
    int first = eager == Eager::compute ? 0 : 1;
    while (!streams[0].empty() || !streams[1].empty()) {
      if (advance(first)) continue;
      if (!advance(1 - first)) throw std::runtime_error("both streams wait for events that never come");
    }
  }

  bool advance(int stream) {
    if (streams[stream].empty()) return false;
    Operation& next = streams[stream].front();
    if (next.wait >= 0 && recorded[next.wait] < next.version) return false;
    if (next.task) next.task();
    if (next.record >= 0) ++recorded[next.record];
    streams[stream].pop_front();
    return true;
  }
};

Rank& rank_of(HetsynthContext* context) { return *static_cast<Rank*>(context->device); }

// What generated host programs call. NCCL's functions get the context through the stream argument.
int launch(HetsynthContext* context, int stream, int kernel, unsigned blocks, unsigned threads, unsigned,
           void** arguments) {
  Rank& rank = rank_of(context);
  std::vector<int64_t> copies;
  for (int i = 0; i < 64; ++i) copies.push_back(0);
  // The number of arguments is the kernel's affair; every one is at most 8 bytes and lies in the caller's frame, packed
  // pointers first.
  int count = 0;
  while (arguments[count]) ++count;
  for (int i = 0; i < count; ++i) std::memcpy(&copies[size_t(i)], arguments[i], 8);
  rank.streams[stream].push_back({[&rank, kernel, blocks, threads, copies]() mutable {
                                    std::vector<void*> pointers;
                                    for (int64_t& value : copies) pointers.push_back(&value);
                                    rank.kernels->launch(kernel, blocks, threads, pointers.data(), rank.turns);
                                  },
                                  -1, -1, 0});
  return 0;
}

int device_matmul(HetsynthContext* context, int64_t batch, int64_t m, int64_t n, int64_t k, const float* a,
                  int64_t a_batch, int64_t a_row, int64_t a_column, const float* w, int64_t w_batch, int64_t w_row,
                  int64_t w_column, float* c, int64_t c_batch, int64_t c_row, int64_t c_column, int accumulate) {
  rank_of(context).streams[0].push_back({[=] {
                                           for (int64_t b = 0; b < batch; ++b)
                                             for (int64_t i = 0; i < m; ++i)
                                               for (int64_t j = 0; j < n; ++j) {
                                                 double sum = 0;
                                                 for (int64_t l = 0; l < k; ++l)
                                                   sum += double(a[b * a_batch + i * a_row + l * a_column]) *
                                                          double(w[b * w_batch + l * w_row + j * w_column]);
                                                 float& out = c[b * c_batch + i * c_row + j * c_column];
                                                 out = float(accumulate ? out + sum : sum);
                                               }
                                         },
                                         -1, -1, 0});
  return 0;
}

int device_copy(HetsynthContext* context, int stream, void* to, const void* from, int64_t bytes) {
  Rank& rank = rank_of(context);
  if (!rank.in_arena(to, bytes) || !rank.in_arena(from, bytes)) return 1;
  rank.streams[stream].push_back({[=] { std::memmove(to, from, size_t(bytes)); }, -1, -1, 0});
  return 0;
}

int record(HetsynthContext* context, int event, int stream) {
  Rank& rank = rank_of(context);
  ++rank.recorded_at_issue[event];
  rank.streams[stream].push_back({{}, event, -1, 0});
  return 0;
}

int wait(HetsynthContext* context, int event, int stream) {
  Rank& rank = rank_of(context);
  rank.streams[stream].push_back({{}, -1, event, rank.recorded_at_issue[event]});
  return 0;
}

void* nccl_communicator(HetsynthContext* context, int axis) { return &rank_of(context).communicators.at(size_t(axis)); }

void issue_group(Rank& rank) {
  Communicator* communicator = static_cast<Communicator*>(rank.group_communicator);
  std::vector<Collective> calls = std::move(rank.group);
  rank.group.clear();
  if (calls.empty()) return;
  rank.streams[1].push_back(
      {[communicator, calls] { communicator->meeting->join(communicator->me, calls); }, -1, -1, 0});
}

thread_local Rank* issuing = nullptr;

int group_start() {
  ++issuing->group_depth;
  return 0;
}

int group_end() {
  if (--issuing->group_depth < 0) return 1;
  if (issuing->group_depth == 0) issue_group(*issuing);
  return 0;
}

/// `stream` is the rank, so that a call on another stream than the communication stream is noticed.
int issue(Collective call, void* communicator, void* stream, int64_t to_count) {
  Rank& rank = *issuing;
  if (stream != &rank) return 2;
  if (!rank.in_arena(call.from, call.from ? call.count * 4 : 0)) return 3;
  if (to_count >= 0 && !rank.in_arena(call.to, to_count * 4)) return 4;
  rank.log.push_back(call.text());
  if (rank.group_depth > 0 && !rank.group.empty() && rank.group_communicator != communicator) return 5;
  rank.group_communicator = communicator;
  rank.group.push_back(call);
  if (rank.group_depth == 0) issue_group(rank);
  return 0;
}

using Kind = Collective::Kind;
const char* bytes_of(const void* p) { return static_cast<const char*>(p); }
char* bytes_of(void* p) { return static_cast<char*>(p); }
int64_t group_size(void* communicator) { return static_cast<Communicator*>(communicator)->ranks; }

int all_gather(const void* from, void* to, size_t count, int type, void* comm, void* stream) {
  return issue({Kind::all_gather, bytes_of(from), bytes_of(to), int64_t(count), type, -1, -1}, comm, stream,
               int64_t(count) * group_size(comm));
}
int all_reduce(const void* from, void* to, size_t count, int type, int op, void* comm, void* stream) {
  return issue({Kind::all_reduce, bytes_of(from), bytes_of(to), int64_t(count), type, op, -1}, comm, stream,
               int64_t(count));
}
int reduce_scatter(const void* from, void* to, size_t count, int type, int op, void* comm, void* stream) {
  return issue({Kind::reduce_scatter, bytes_of(from), bytes_of(to), int64_t(count), type, op, -1}, comm, stream,
               int64_t(count));
}
int broadcast(const void* from, void* to, size_t count, int type, int root, void* comm, void* stream) {
  return issue({Kind::broadcast, bytes_of(from), bytes_of(to), int64_t(count), type, -1, root}, comm, stream,
               int64_t(count));
}
int reduce(const void* from, void* to, size_t count, int type, int op, int root, void* comm, void* stream) {
  return issue({Kind::reduce, bytes_of(from), bytes_of(to), int64_t(count), type, op, root}, comm, stream, -1);
}
int send(const void* from, size_t count, int type, int peer, void* comm, void* stream) {
  return issue({Kind::send, bytes_of(from), nullptr, int64_t(count), type, -1, peer}, comm, stream, 0);
}
int receive(void* to, size_t count, int type, int peer, void* comm, void* stream) {
  return issue({Kind::receive, nullptr, bytes_of(to), int64_t(count), type, -1, peer}, comm, stream, int64_t(count));
}

template <class F>
void* address(F* function) {
  return reinterpret_cast<void*>(function);
}

const std::map<std::string, void*>& host_symbols() {
  static const std::map<std::string, void*> symbols = {{"hetsynth_launch", address(&launch)},
                                                       {"hetsynth_device_matmul", address(&device_matmul)},
                                                       {"hetsynth_device_copy", address(&device_copy)},
                                                       {"hetsynth_record", address(&record)},
                                                       {"hetsynth_wait", address(&wait)},
                                                       {"hetsynth_nccl_communicator", address(&nccl_communicator)},
                                                       {"ncclGroupStart", address(&group_start)},
                                                       {"ncclGroupEnd", address(&group_end)},
                                                       {"ncclAllGather", address(&all_gather)},
                                                       {"ncclAllReduce", address(&all_reduce)},
                                                       {"ncclReduceScatter", address(&reduce_scatter)},
                                                       {"ncclBroadcast", address(&broadcast)},
                                                       {"ncclReduce", address(&reduce)},
                                                       {"ncclSend", address(&send)},
                                                       {"ncclRecv", address(&receive)}};
  return symbols;
}

/// Walks the elements of a rank's part of a tensor: position in the part, position in the whole.
void each_element(const std::vector<Range>& ranges, const Shape& shape,
                  const std::function<void(int64_t, int64_t)>& visit) {
  std::vector<int64_t> strides = row_major_strides(shape);
  int64_t count = 1;
  for (const Range& range : ranges) count *= range.hi - range.lo;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, whole = 0;
    for (size_t d = ranges.size(); d-- > 0;) {
      int64_t extent = ranges[d].hi - ranges[d].lo;
      whole += (ranges[d].lo + rest % extent) * strides[d];
      rest /= extent;
    }
    visit(i, whole);
  }
}

}  // namespace

struct CudaClusterDouble::Impl {
  const Program& reference;
  const SpmdProgram& program;
  std::vector<std::unique_ptr<Rank>> ranks;
  std::map<std::pair<int, int>, std::unique_ptr<Meeting>> meetings;  ///< by axis and first rank of the group

  void add(DeviceProgram device) {
    auto rank = std::make_unique<Rank>();
    rank->program = std::move(device);
    const DeviceProgram& p = rank->program;
    rank->storage.assign(size_t(p.arena_bytes) + 256, char(0xff));
    rank->arena = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(rank->storage.data()) + 255) / 256 * 256);
    for (const Slot& slot : p.leaves) {
      int64_t count = 1;
      for (const Range& range : slot.ranges) count *= range.hi - range.lo;
      rank->leaf_bytes = std::max(rank->leaf_bytes, slot.offset_bytes + count * 4);
    }
    CompileOptions options;
    options.optimization = 0;
    rank->host = load_native(p.files.at(0).text, options, host_symbols());
    const char* const* names = static_cast<const char* const*>(rank->host.find("hetsynth_kernels"));
    int count = *static_cast<const int*>(rank->host.find("hetsynth_kernel_count"));
    rank->kernels =
        std::make_unique<EmulatedKernels>(p.files.at(1).text, std::vector<std::string>(names, names + count));
    for (int axis = 0; axis < int(program.mesh.axes.size()); ++axis) {
      std::vector<int> group = program.mesh.group(p.rank, axis);
      std::unique_ptr<Meeting>& meeting = meetings[{axis, group.front()}];
      if (!meeting) meeting = std::make_unique<Meeting>(int(group.size()));
      rank->communicators.push_back({meeting.get(), program.mesh.coordinate(p.rank, axis), int(group.size())});
    }
    ranks.push_back(std::move(rank));
  }

  void step(Rank& rank, const EvaluationContext& context, Eager eager, Turns turns) {
    rank.turns = turns;
    rank.log.clear();
    std::memset(rank.arena + rank.leaf_bytes, 0xff, size_t(rank.program.arena_bytes - rank.leaf_bytes));
    HetsynthContext c{rank.arena, context.step, context.seed, nullptr, nullptr, &rank, &rank};
    issuing = &rank;
    if (int code = rank.host.function<int(HetsynthContext*)>("hetsynth_step")(&c))
      throw std::runtime_error(fmt::format("the host program returned {}", code));
    if (rank.group_depth != 0) throw std::runtime_error("a group of calls was not ended");
    rank.drain(eager);
  }

  Array collect(const std::function<const Slot*(const Rank&)>& slot_of, const Shape& shape) const {
    Array out(shape, std::nan(""));
    for (const auto& rank : ranks) {
      const Slot* slot = slot_of(*rank);
      if (!slot) throw std::runtime_error("a rank has no such tensor");
      const float* data = reinterpret_cast<const float*>(rank->arena + slot->offset_bytes);
      each_element(slot->ranges, shape, [&](int64_t local, int64_t whole) {
        double& value = out.values[size_t(whole)];
        double found = slot->dtype == DType::i32 ? reinterpret_cast<const int*>(data)[local] : data[local];
        if (!std::isnan(value) && value != found)
          throw std::runtime_error(
              fmt::format("ranks hold different values of element {}: {} and {}", whole, value, found));
        value = found;
      });
    }
    return out;
  }
};

CudaClusterDouble::CudaClusterDouble(const Program& reference, const SpmdProgram& program,
                                     std::vector<DeviceProgram> ranks)
    : impl_(new Impl{reference, program, {}, {}}) {
  for (DeviceProgram& rank : ranks) impl_->add(std::move(rank));
}

CudaClusterDouble::~CudaClusterDouble() = default;

void CudaClusterDouble::write_leaf(NodeId leaf, const Array& contents) {
  for (auto& rank : impl_->ranks)
    for (const Slot& slot : rank->program.leaves) {
      if (slot.node != leaf) continue;
      char* to = rank->arena + slot.offset_bytes;
      each_element(slot.ranges, contents.shape, [&](int64_t local, int64_t whole) {
        double value = contents.values[size_t(whole)];
        if (slot.dtype == DType::i32)
          reinterpret_cast<int*>(to)[local] = int(value);
        else
          reinterpret_cast<float*>(to)[local] = float(value);
      });
    }
}

void CudaClusterDouble::step(const EvaluationContext& context, Eager eager, Turns turns) {
  std::vector<std::thread> threads;
  for (auto& rank : impl_->ranks)
    threads.emplace_back([&, r = rank.get()] {
      try {
        impl_->step(*r, context, eager, turns);
      } catch (const std::exception& error) {
        std::string problem = error.what();
        r->problem = problem.rfind("rank ", 0) == 0 ? problem : fmt::format("rank {}: {}", r->program.rank, problem);
        for (const auto& meeting : impl_->meetings) meeting.second->abandon(r->problem);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (auto& rank : impl_->ranks)
    if (!rank->problem.empty()) throw std::runtime_error(rank->problem);
  for (const auto& meeting : impl_->meetings) meeting.second->end_step();
}

Array CudaClusterDouble::read_leaf(NodeId leaf) const {
  return impl_->collect(
      [leaf](const Rank& rank) -> const Slot* {
        for (const Slot& slot : rank.program.leaves)
          if (slot.node == leaf) return &slot;
        return nullptr;
      },
      impl_->reference[leaf].type.shape);
}

Array CudaClusterDouble::read_output(NodeId node) const {
  return impl_->collect(
      [node](const Rank& rank) -> const Slot* {
        for (const Slot& slot : rank.program.outputs)
          if (slot.node == node) return &slot;
        return nullptr;
      },
      impl_->reference[node].type.shape);
}

double CudaClusterDouble::loss() const {
  const Rank& rank = *impl_->ranks.front();
  return *reinterpret_cast<const float*>(rank.arena + rank.program.loss.offset_bytes);
}

const std::vector<std::string>& CudaClusterDouble::collectives(int rank) const {
  return impl_->ranks.at(size_t(rank))->log;
}

}  // namespace hetsynth::testing_support
