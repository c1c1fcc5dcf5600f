// The doubles themselves: every rule that they are there for is broken once and must be noticed, with rank and
// operation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <thread>

#include "runtime/cuda/nccl_ranks.h"
#include "tests/support/cuda/cuda_doubles.h"

namespace hetsynth::testing_support {
namespace {

using cuda::DevicePointer;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t bytes = 4096;

/// What a rank of these tests works with.
struct Rank {
  int number;
  const cuda::Api& api;
  cuda::NcclConnection& connection;
  std::array<void*, 2> streams;
  char* memory;
  const cuda::Nccl& nccl() const { return api.nccl; }
  const cuda::Driver& driver() const { return api.driver; }
  float* at(int element) const { return reinterpret_cast<float*>(memory) + element; }
  void* comm(int axis = 0) const { return connection.along(axis); }
};

/// Runs `work` on every rank of a mesh, each on its thread and GPU, waits for all streams, and gives the first problem
/// any of them met.
std::string run(const Mesh& mesh, const std::function<void(const Rank&)>& work) {
  MachineOptions options;
  options.gpus = mesh.device_count();
  options.patience = std::chrono::milliseconds(500);
  CudaDoubles machine(options);
  const cuda::Api& api = *machine.backend().api;
  const size_t count = size_t(options.gpus);
  cuda::NcclRanks ranks(api.nccl, mesh, std::vector<bool>(count, true));
  std::vector<std::string> problems(count);
  std::vector<std::thread> threads;
  for (size_t r = 0; r < count; ++r)
    threads.emplace_back([&, r] {
      void* context = nullptr;
      api.driver.primary_context_retain(&context, int(r));
      api.driver.context_set_current(context);
      std::array<void*, 2> streams{};
      for (void*& stream : streams) api.driver.stream_create(&stream, cuda::stream_non_blocking, 0);
      DevicePointer memory = 0;
      api.driver.allocate(&memory, bytes);
      cuda::NcclConnection connection(ranks, int(r), [] { return false; });
      work({int(r), api, connection, streams, reinterpret_cast<char*>(memory)});
      for (void* stream : streams)
        if (int error = api.driver.stream_synchronize(stream)) {
          const char* text = nullptr;
          api.driver.error_text(error, &text);
          problems[r] = text;
        }
      connection.abort();
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& problem : problems)
    if (!problem.empty()) return problem;
  return "";
}

const Mesh line{{{"dp", 2}}};
const Mesh square{{{"rows", 2}, {"columns", 2}}};

TEST(NcclRules, RightUseIsLeftAlone) {
  EXPECT_EQ(run(line,
                [](const Rank& r) {
                  r.driver().fill(DevicePointer(r.memory), 0, bytes, r.streams[1]);
                  r.nccl().all_reduce(r.at(0), r.at(0), 8, 7, 0, r.comm(), r.streams[1]);
                  r.nccl().all_gather(r.at(16 + 4 * r.number), r.at(16), 4, 7, r.comm(), r.streams[1]);
                  r.nccl().group_start();
                  r.nccl().send(r.at(0), 4, 7, 1 - r.number, r.comm(), r.streams[1]);
                  r.nccl().receive(r.at(64), 4, 7, 1 - r.number, r.comm(), r.streams[1]);
                  r.nccl().group_end();
                }),
            "");
}

TEST(NcclRules, ASplitIsThereOnlyWhenTheCommunicatorIsAtRest) {
  EXPECT_EQ(run(square,
                [](const Rank& r) {
                  ASSERT_NE(r.comm(0), nullptr);
                  ASSERT_NE(r.comm(1), nullptr);
                  EXPECT_NE(r.comm(0), r.comm(1));
                  r.nccl().all_reduce(r.at(0), r.at(64), 8, 7, 0, r.comm(0), r.streams[1]);
                  r.nccl().all_reduce(r.at(0), r.at(128), 8, 7, 0, r.comm(1), r.streams[1]);
                }),
            "");
  // What NCCL does, seen from its caller: success at once, the communicator later.
  EXPECT_EQ(run(line,
                [](const Rank& r) {
                  cuda::NcclConfig config;
                  void* part = &part;
                  EXPECT_EQ(r.nccl().split(r.comm(), 0, r.number, &part, &config), 0);
                  EXPECT_EQ(std::atomic_ref(part).load(), nullptr);
                  int state = cuda::nccl_in_progress;
                  while (state == cuda::nccl_in_progress) r.nccl().asynchronous_error(r.comm(), &state);
                  EXPECT_EQ(state, 0);
                  EXPECT_NE(std::atomic_ref(part).load(), nullptr);
                  r.nccl().abort(part);
                }),
            "");
}

TEST(NcclRules, OneSequenceOnAllRanks) {
  EXPECT_THAT(run(line,
                  [](const Rank& r) {
                    r.nccl().all_reduce(r.at(0), r.at(64), r.number ? 8 : 9, 7, 0, r.comm(), r.streams[1]);
                  }),
              AllOf(HasSubstr("all_reduce 9 f32"), HasSubstr("all_reduce 8 f32"), HasSubstr("rule 1")));
}

TEST(NcclRules, OneOrderOfCommunicators) {
  // A ring of waits that no two ranks see: each pair shares one communicator alone.
  const std::string found = run(square, [](const Rank& r) {
    const int first = r.number == 0 || r.number == 3 ? 0 : 1;
    r.nccl().all_reduce(r.at(0), r.at(64), 8, 7, 0, r.comm(first), r.streams[1]);
    r.nccl().all_reduce(r.at(128), r.at(192), 8, 7, 0, r.comm(1 - first), r.streams[1]);
  });
  EXPECT_THAT(found, AllOf(HasSubstr("waits in all_reduce 8 f32"), HasSubstr("wait for each other")));
}

TEST(NcclRules, SendsMatchReceives) {
  EXPECT_THAT(run(line,
                  [](const Rank& r) {
                    r.nccl().group_start();
                    r.nccl().send(r.at(0), r.number ? 4 : 5, 7, 1 - r.number, r.comm(), r.streams[1]);
                    r.nccl().receive(r.at(64), 4, 7, 1 - r.number, r.comm(), r.streams[1]);
                    r.nccl().group_end();
                  }),
              AllOf(HasSubstr("receive 4 f32"), HasSubstr("sends 20 bytes"), HasSubstr("rule 3")));
}

TEST(NcclRules, TransfersThatRunTogetherStandInOneGroup) {
  EXPECT_THAT(run(line,
                  [](const Rank& r) {
                    r.nccl().send(r.at(0), 4, 7, 1 - r.number, r.comm(), r.streams[1]);
                    r.nccl().receive(r.at(64), 4, 7, 1 - r.number, r.comm(), r.streams[1]);
                  }),
              HasSubstr("send 4 f32 op -1 peer 1 outside of a group (rule 3)"));
}

TEST(NcclRules, NobodyWaitsInsideOfAGroup) {
  EXPECT_THAT(run(line,
                  [](const Rank& r) {
                    r.nccl().group_start();
                    r.nccl().all_reduce(r.at(0), r.at(64), 8, 7, 0, r.comm(), r.streams[1]);
                    r.driver().stream_query(r.streams[1]);
                    r.nccl().group_end();
                  }),
              HasSubstr("cuStreamQuery between ncclGroupStart and ncclGroupEnd"));
}

TEST(NcclRules, AGroupUsesOneStream) {
  EXPECT_THAT(run(line,
                  [](const Rank& r) {
                    r.nccl().group_start();
                    r.nccl().all_reduce(r.at(0), r.at(64), 8, 7, 0, r.comm(), r.streams[1]);
                    r.nccl().all_reduce(r.at(128), r.at(192), 8, 7, 0, r.comm(), r.streams[0]);
                    r.nccl().group_end();
                  }),
              HasSubstr("on another stream than the rest of its group (rule 5)"));
}

TEST(NcclRules, AllRanksRecordOrNone) {
  EXPECT_THAT(run(line,
                  [](const Rank& r) {
                    void *graph = nullptr, *executable = nullptr;
                    if (r.number == 0) r.driver().begin_capture(r.streams[1], cuda::capture_relaxed);
                    r.nccl().all_reduce(r.at(0), r.at(64), 8, 7, 0, r.comm(), r.streams[1]);
                    if (r.number != 0) return;
                    r.driver().end_capture(r.streams[1], &graph);
                    r.driver().graph_instantiate(&executable, graph, 0);
                    r.driver().graph_launch(executable, r.streams[1]);
                  }),
              AllOf(HasSubstr("all_reduce 8 f32 op 0 peer -1, recorded"), HasSubstr("rule 1")));
}

TEST(NcclRules, InPlaceOnlyAtTheRanksOwnOffset) {
  EXPECT_THAT(
      run(line,
          [](const Rank& r) { r.nccl().all_gather(r.at(1 + 4 * r.number), r.at(0), 4, 7, r.comm(), r.streams[1]); }),
      HasSubstr("overlaps its source elsewhere than in place (rule 7)"));
}

TEST(NcclRules, OnlyCommunicatorsThatDoNotBlockAreAborted) {
  MachineOptions options;
  CudaDoubles machine(options);
  const cuda::Api& api = *machine.backend().api;
  void *context = nullptr, *communicator = nullptr, *stream = nullptr;
  api.driver.primary_context_retain(&context, 0);
  api.driver.context_set_current(context);
  api.driver.stream_create(&stream, cuda::stream_non_blocking, 0);
  cuda::NcclUniqueId id;
  api.nccl.unique_id(&id);
  cuda::NcclConfig config;
  config.blocking = 1;
  api.nccl.init_rank(&communicator, 1, id, 0, &config);
  api.nccl.abort(communicator);
  const char* text = nullptr;
  const int error = api.driver.stream_synchronize(stream);
  api.driver.error_text(error, &text);
  EXPECT_THAT(text, HasSubstr("a communicator that blocks (rule 8)"));
}

TEST(NcclRules, AllRanksAbortOrNone) {
  MachineOptions options;
  options.gpus = 2;
  CudaDoubles machine(options);
  const cuda::Nccl& nccl = machine.backend().api->nccl;
  cuda::NcclUniqueId id;
  nccl.unique_id(&id);
  cuda::NcclConfig config;
  std::array<void*, 2> communicators{};
  for (int r : {0, 1}) nccl.init_rank(&communicators[size_t(r)], 2, id, r, &config);
  nccl.abort(communicators[0]);
  nccl.destroy(communicators[1]);
  EXPECT_THAT(machine.left_behind(), HasSubstr("1 ranks aborted a communicator that 1 left in good order (rule 8)"));
}

// ---- the driver ----

TEST(DriverDouble, AMissingEventIsARace) {
  const auto work = [](bool ordered) {
    return run(line, [ordered](const Rank& r) {
      void* event = nullptr;
      r.driver().event_create(&event, 0);
      r.driver().fill(DevicePointer(r.memory), 0, 64, r.streams[0]);
      r.driver().event_record(event, r.streams[0]);
      if (ordered) r.driver().stream_wait(r.streams[1], event, 0);
      r.driver().copy_on_device(DevicePointer(r.memory) + 128, DevicePointer(r.memory), 64, r.streams[1]);
      r.driver().stream_synchronize(r.streams[0]);
      r.driver().stream_synchronize(r.streams[1]);
      r.driver().event_destroy(event);
    });
  };
  EXPECT_EQ(work(true), "");
  EXPECT_THAT(work(false), AllOf(HasSubstr("race"), HasSubstr("fill"), HasSubstr("copy on the device")));
}

TEST(DriverDouble, AccessOutsideOfAllocationsIsFound) {
  EXPECT_THAT(run(line,
                  [](const Rank& r) {
                    r.driver().copy_on_device(DevicePointer(r.memory) + bytes - 8, DevicePointer(r.memory), 64,
                                              r.streams[0]);
                  }),
              HasSubstr("copy on the device writes 64 bytes outside of every allocation"));
}

}  // namespace
}  // namespace hetsynth::testing_support
