// The state behind the tables of CudaDoubles.
#pragma once
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/support/cuda/cuda_doubles.h"
#include "tests/support/cuda/device_memory.h"

namespace hetsynth::testing_support {

/// The error every call gives once a rule is broken: CUDA_ERROR_LAUNCH_FAILED.
constexpr int rule_broken = 719;

struct Gpu;

struct Event {
  std::deque<Clock> records;  ///< clock of the stream at each record that was carried out
  int issued = 0;             ///< records issued so far
};

struct Operation {
  std::string name;
  /// Carries it out; false: it has to wait for other ranks.
  std::function<bool(Toucher&)> run;
  Event* record = nullptr;
  Event* wait = nullptr;
  int version = 0;     ///< wait: how many records must have been carried out
  Clock host = {};     ///< what the host had waited for when it issued the operation
  bool begun = false;  ///< it has its number
};

struct Stream {
  Gpu* gpu;
  int number;
  Clock clock = {};
  std::deque<Operation> queue;
};

/// Some multiprocessors of a GPU, which do nothing else here than be counted.
struct GreenContext {
  Gpu* gpu;
  int multiprocessors;
};

struct Gpu {
  Gpu(int index, size_t bytes) : ordinal(index), memory(bytes), random(uint64_t(index)) {}
  int ordinal;
  DeviceMemory memory;
  std::vector<std::unique_ptr<Stream>> streams;
  std::set<Event*> events;
  Clock host = {};
  std::mt19937_64 random;
  int contexts = 0, modules = 0, pinned = 0, graphs = 0, handles = 0;
  std::vector<std::string> collectives;
  std::string problem;  ///< the first rule broken here
  std::vector<std::unique_ptr<GreenContext>> greens;
  std::recursive_mutex mutex;  ///< ranks in green contexts are threads of one GPU

  void fail(const std::string& text) {
    if (problem.empty()) problem = text;
  }
  /// Carries out what can be until the stream is empty: 0; not_ready if other ranks have to come first.
  int drain(Stream& wanted);
  void enqueue(Stream& stream, Operation operation);
  /// Carries `enqueues` out now, or records it while a stream is being captured.
  void issue(std::function<void()> enqueues);
  std::vector<std::function<void()>>* captured = nullptr;  ///< what is being recorded
  /// Touches a range on behalf of an operation; false if it is not the device's.
  bool touch(const void* pointer, size_t bytes, bool writes, const Toucher& by);

 private:
  enum class Advance { nothing, waits, done };
  Advance advance(Stream& stream);
  std::vector<Stream*> order();
};

struct DoubleMachine {
  explicit DoubleMachine(MachineOptions given);
  ~DoubleMachine();
  MachineOptions options;
  std::vector<std::unique_ptr<Gpu>> gpus;
  cuda::Api api;
  cuda::Backend backend;
  std::atomic<int> allocations{0};
  std::atomic<int> descriptors{0};  ///< of cuDNN
  std::shared_ptr<struct NcclDouble> nccl;
  /// Grows with everything that is carried out, anywhere: where it stands still, ranks wait for each other.
  std::atomic<uint64_t> progress{0};

  static DoubleMachine& current();
};

/// GPU whose context is the thread's current one.
Gpu*& current_gpu();
/// Whether the thread is between ncclGroupStart and ncclGroupEnd.
int& open_groups();

void fill_driver(cuda::Driver& driver);
void fill_nccl(cuda::Nccl& nccl);
void fill_cublas(cuda::CublasLt& cublas);
void fill_cudnn(cuda::Cudnn& cudnn);
std::shared_ptr<NcclDouble> make_nccl();
/// See CudaDoubles::left_behind.
std::string left_behind(const NcclDouble& nccl);

}  // namespace hetsynth::testing_support
