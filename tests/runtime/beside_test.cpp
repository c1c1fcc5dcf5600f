// Collectives that are begun and waited for later: together, beside computing, with the same results to the bit.
#include <gmock/gmock.h>
#include <rapidcheck.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "tests/runtime/random_parts.h"
#include "tests/runtime/rank_harness.h"

namespace hetsynth {
namespace {

using ::testing::HasSubstr;
using testing::mesh_of;
using testing::random_bounds;
using testing::random_values;
using testing::RankHarness;
using testing::Transport;

class Beside : public ::testing::TestWithParam<Transport> {};

/// A sum, a scattered sum, or a gathered value: what may travel together.
struct Call {
  int kind = 0;
  int64_t outer = 1, extent = 1, inner = 1;
  std::vector<int64_t> bounds;
  std::vector<std::vector<float>> sources, results, expected;  ///< by rank

  int carry_out(HetsynthContext* context, int id, int rank, std::vector<std::vector<float>>* into) const {
    const void* source = sources[size_t(rank)].data();
    void* result = (*into)[size_t(rank)].data();
    if (kind == 0)
      return hetsynth_all_reduce(context, id, 0, source, result, int64_t((*into)[size_t(rank)].size()), 0, 0);
    if (kind == 1) return hetsynth_reduce_scatter(context, id, 0, source, result, outer, inner, bounds.data(), 0, 0);
    return hetsynth_all_gather(context, id, 0, source, result, outer, inner, bounds.data(), 0);
  }
};

Call random_call(std::mt19937_64& random, int members) {
  const auto below = [&](int64_t limit) { return int64_t(random() % uint64_t(limit)); };
  Call out;
  out.kind = int(below(3));
  out.outer = below(4), out.extent = below(40), out.inner = 1 + below(30);
  out.bounds = random_bounds(random, members, out.extent);
  for (size_t j = 0; j < size_t(members); ++j) {
    const int64_t whole = out.outer * out.extent * out.inner;
    const int64_t part = out.outer * (out.bounds[j + 1] - out.bounds[j]) * out.inner;
    out.sources.push_back(random_values(random, out.kind == 2 ? part : whole));
    out.results.emplace_back(size_t(out.kind == 1 ? part : whole), -7.0f);
  }
  out.expected = out.results;
  return out;
}

TEST_P(Beside, WhatTravelsTogetherArrivesAsItWouldAlone) {
  EXPECT_TRUE(rc::check([] {
    const int members = *rc::gen::inRange(1, 5);
    const auto sizes = *rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 5));
    std::mt19937_64 random(*rc::gen::arbitrary<uint64_t>());
    std::vector<std::vector<Call>> bundles;
    for (const int size : sizes) {
      bundles.emplace_back();
      for (int i = 0; i < size; ++i) bundles.back().push_back(random_call(random, members));
    }
    RankHarness ranks(mesh_of({members}), GetParam());
    ranks.run([&](int rank, HetsynthContext* context) {
      int id = 0;
      for (std::vector<Call>& bundle : bundles)
        for (Call& call : bundle) ASSERT_EQ(call.carry_out(context, id++, rank, &call.expected), 0);
    });
    ranks.run([&](int rank, HetsynthContext* context) {
      int id = 0;
      std::vector<int> begun;
      for (std::vector<Call>& bundle : bundles) {
        begun.push_back(id);
        ASSERT_EQ(hetsynth_begin(context, id, int(bundle.size())), 0);
        for (Call& call : bundle) ASSERT_EQ(call.carry_out(context, id++, rank, &call.results), 0);
      }
      // In any order.
      std::shuffle(begun.begin(), begun.end(), std::mt19937_64(size_t(rank)));
      for (const int first : begun) ASSERT_EQ(hetsynth_end(context, first), 0);
    });
    for (const std::vector<Call>& bundle : bundles)
      for (const Call& call : bundle) RC_ASSERT(call.results == call.expected);
  }));
}

/// Over messages a rank goes on while others are late; in shared memory calls are carried out in their place.
TEST(OneWay, ARankGoesOnWhileItsMessagesAreUnderWay) {
  RankHarness ranks(mesh_of({2}), Transport::messages);
  std::vector<float> source(1000, 1), results[2] = {std::vector<float>(1000), std::vector<float>(1000)};
  std::atomic<bool> went_on{false};
  bool late_saw_it = false;
  ranks.run([&](int rank, HetsynthContext* context) {
    if (rank == 1) {
      // The other rank has begun long ago; a deadline keeps a failing test from hanging.
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (!went_on && std::chrono::steady_clock::now() < deadline)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      late_saw_it = went_on;
    }
    ASSERT_EQ(hetsynth_begin(context, 3, 1), 0);
    ASSERT_EQ(hetsynth_all_reduce(context, 3, 0, source.data(), results[rank].data(), 1000, 0, 0), 0);
    if (rank == 0) went_on = true;
    ASSERT_EQ(hetsynth_end(context, 3), 0);
    EXPECT_EQ(results[rank], std::vector<float>(1000, 2));
  });
  EXPECT_TRUE(late_saw_it);
}

/// Calls that are not begun keep their place among those that are.
TEST_P(Beside, CallsKeepTheirOrder) {
  RankHarness ranks(mesh_of({3}), GetParam());
  ranks.run([&](int rank, HetsynthContext* context) {
    for (int round = 0; round < 50; ++round) {
      const float value = float(rank + round);
      float first = 0, second = 0, third = 0;
      ASSERT_EQ(hetsynth_begin(context, 1, 2), 0);
      ASSERT_EQ(hetsynth_all_reduce(context, 1, 0, &value, &first, 1, 0, 0), 0);
      ASSERT_EQ(hetsynth_all_reduce(context, 2, 0, &value, &second, 1, 1, 0), 0);
      ASSERT_EQ(hetsynth_all_reduce(context, 5, 0, &value, &third, 1, 3, 0), 0);
      ASSERT_EQ(hetsynth_end(context, 1), 0);
      ASSERT_EQ(first, float(3 + 3 * round));
      ASSERT_EQ(second, float(2 + round));
      ASSERT_EQ(third, float(round));
    }
  });
}

struct Sent {
  int from = 0, to = 1;
  std::vector<float> values, arrived;
};

/// What is sent among collectives, begun or in its place on either side, waited for in any order.
TEST_P(Beside, WhatIsSentArrives) {
  EXPECT_TRUE(rc::check([] {
    const int members = *rc::gen::inRange(2, 5);
    std::mt19937_64 random(*rc::gen::arbitrary<uint64_t>());
    std::vector<Sent> sends(*rc::gen::inRange<size_t>(1, 12));
    for (Sent& sent : sends) {
      sent.from = int(random() % size_t(members));
      sent.to = (sent.from + 1 + int(random() % size_t(members - 1))) % members;
      sent.values = random_values(random, int64_t(random() % 300));
      sent.arrived.resize(sent.values.size());
    }
    RankHarness ranks(mesh_of({members}), GetParam());
    for (int step = 0; step < 2; ++step)
      ranks.run([&](int rank, HetsynthContext* context) {
        std::mt19937_64 own(size_t(rank + 10 * step));
        std::vector<int> begun;
        for (int id = 0; id < int(sends.size()); ++id) {
          Sent& sent = sends[size_t(id)];
          const int64_t count = int64_t(sent.values.size());
          const float one = 1;
          float sum = 0;
          if (id % 3 == 2) {
            ASSERT_EQ(hetsynth_all_reduce(context, 1000 + id, 0, &one, &sum, 1, 0, 0), 0);
            ASSERT_EQ(sum, float(members));
          }
          if (rank != sent.from && rank != sent.to) continue;
          const bool begins = own() % 2 == 0;
          if (begins) {
            ASSERT_EQ(hetsynth_begin(context, id, 1), 0);
          }
          if (rank == sent.from) {
            ASSERT_EQ(hetsynth_send(context, id, 0, sent.values.data(), count, sent.to, 0), 0);
          } else {
            ASSERT_EQ(hetsynth_receive(context, id, 0, sent.arrived.data(), count, sent.from, 0), 0);
          }
          if (begins) begun.push_back(id);
        }
        std::shuffle(begun.begin(), begun.end(), own);
        for (const int id : begun) ASSERT_EQ(hetsynth_end(context, id), 0);
      });
    for (const Sent& sent : sends) RC_ASSERT(sent.arrived == sent.values);
  }));
}

/// Over messages nobody waits for who receives: two ranks that send first, and receive then, do not block each other.
TEST(OneWay, WhoSendsDoesNotWait) {
  RankHarness ranks(mesh_of({2}), Transport::messages);
  const std::vector<float> values(200'000, 3);
  std::vector<float> arrived[2] = {std::vector<float>(values.size()), std::vector<float>(values.size())};
  ranks.run([&](int rank, HetsynthContext* context) {
    const int64_t count = int64_t(values.size());
    ASSERT_EQ(hetsynth_send(context, rank, 0, values.data(), count, 1 - rank, 0), 0);
    ASSERT_EQ(hetsynth_receive(context, 1 - rank, 0, arrived[rank].data(), count, 1 - rank, 0), 0);
  });
  for (const auto& there : arrived) EXPECT_EQ(there, values);
}

TEST(OneWay, WhoSendsSomethingElseIsTold) {
  RankHarness ranks(mesh_of({2}), Transport::messages);
  std::vector<float> values(10, 1);
  ranks.run([&](int rank, HetsynthContext* context) {
    if (rank == 0)
      hetsynth_send(context, 4, 0, values.data(), 10, 1, 0);
    else
      EXPECT_NE(hetsynth_receive(context, 4, 0, values.data(), 8, 0, 0), 0);
  });
  EXPECT_THAT(ranks.failure_of_process(0) + ranks.failure_of_process(1),
              HasSubstr("ranks met in different collectives"));
}

TEST_P(Beside, RanksThatBeginDifferentThingsAreTold) {
  RankHarness ranks(mesh_of({2}), GetParam());
  std::string told;
  const auto run = [&] {
    ranks.run([&](int rank, HetsynthContext* context) {
      const float value = 1;
      float a = 0, b = 0;
      if (hetsynth_begin(context, 1, rank == 0 ? 2 : 1)) return;
      if (hetsynth_all_reduce(context, 1, 0, &value, &a, 1, 0, 0)) return;
      if (rank == 1 && hetsynth_begin(context, 2, 1)) return;
      if (hetsynth_all_reduce(context, 2, 0, &value, &b, 1, 0, 0)) return;
      hetsynth_end(context, 1);
    });
  };
  if (GetParam() == Transport::shared_memory) {
    try {
      run();
      FAIL() << "nobody noticed";
    } catch (const std::exception& error) {
      told = error.what();
    }
  } else {
    run();
    told = ranks.failure_of_process(0) + ranks.failure_of_process(1);
  }
  EXPECT_THAT(told, HasSubstr("ranks met in different collectives"));
  EXPECT_THAT(told, HasSubstr("all_reduce of instruction 1, axis 0, 1 f32, sum and 1 more up to instruction 2"));
}

TEST(OneWay, WhatIsBegunWronglyIsTold) {
  const auto failure = [](const std::function<int(HetsynthContext*, float*)>& body) -> std::string {
    RankHarness ranks(mesh_of({1}));
    std::vector<float> values(4, 1);
    try {
      ranks.run([&](int, HetsynthContext* context) { EXPECT_NE(body(context, values.data()), 0); });
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  };
  const auto reduce = [](HetsynthContext* context, int id, float* values) {
    return hetsynth_all_reduce(context, id, 0, values, values + 1, 1, 0, 0);
  };
  EXPECT_THAT(failure([&](HetsynthContext* context, float*) { return hetsynth_begin(context, 1, 0); }),
              HasSubstr("began 0 collectives at instruction 1"));
  EXPECT_THAT(failure([&](HetsynthContext* context, float* values) {
                return hetsynth_begin(context, 1, 2) || reduce(context, 1, values) || hetsynth_begin(context, 2, 1);
              }),
              HasSubstr("began collective 2 before all that began with 1 were called"));
  EXPECT_THAT(failure([&](HetsynthContext* context, float* values) {
                return hetsynth_begin(context, 1, 2) || reduce(context, 1, values) || hetsynth_end(context, 1);
              }),
              HasSubstr("waits for collective 1 before all that began with 1 were called"));
  EXPECT_THAT(failure([&](HetsynthContext* context, float* values) {
                return hetsynth_begin(context, 1, 1) || reduce(context, 2, values);
              }),
              HasSubstr("began collective 1, but called all_reduce of instruction 2"));
  EXPECT_THAT(failure([&](HetsynthContext* context, float* values) {
                return hetsynth_begin(context, 1, 2) || hetsynth_broadcast(context, 1, 0, values, values + 1, 1, 0, 0);
              }),
              HasSubstr("called broadcast of instruction 1"));
}

/// Nobody waits for ever where a rank leaves its step while others' messages are under way.
TEST(OneWay, ARankThatFailsEndsWhatIsUnderWay) {
  RankHarness ranks(mesh_of({2}), Transport::messages);
  std::vector<float> source(10, 1), result(10);
  ranks.run([&](int rank, HetsynthContext* context) {
    if (rank == 1) return ranks.state_of_process(1).fail(1, "gave up");
    ASSERT_EQ(hetsynth_begin(context, 1, 1), 0);
    ASSERT_EQ(hetsynth_all_reduce(context, 1, 0, source.data(), result.data(), 10, 0, 0), 0);
    ranks.state_of_process(0).fail(0, "told of the other's failure");
    EXPECT_NE(hetsynth_end(context, 1), 0);
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, Beside, ::testing::Values(Transport::shared_memory, Transport::messages),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace hetsynth
